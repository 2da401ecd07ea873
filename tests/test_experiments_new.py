"""Experiments that no paper has: more than two views, kernel exponential-family PCA."""

import numpy as np
import pytest

from experiments import kernel_epca, views_mfeat
from experiments._runner import Plan, key


def test_the_gaussian_family_on_a_kernel_is_kernel_pca():
    K = kernel_epca.gram(np.random.default_rng(0).normal(size=(40, 3)))
    assert K.max() <= 1 + 1e-12 and K.min() > 0
    assert kernel_epca.angle_to_kernel_pca(K) < 1e-6


def test_neighbors_in_codes_are_counted_and_told():
    experiment = kernel_epca.EXPERIMENT
    cells = experiment.cells({}, Plan(quick=True))[:2]
    done = {key(cell): {"cell": cell, "result": experiment.run(cell)} for cell in cells}
    summary = experiment.summary(done, Plan())
    assert [row["dataset"] for row in summary] == ["SYNTHETIC"] and summary[0]["n"] == 2
    accuracies = summary[0]["accuracies"][kernel_epca.GAUSSIAN]
    assert all(0.5 < value <= 1 for value in accuracies)
    assert "**holds**" in experiment.report(summary)


def test_errors_lie_in_one_view_and_facts_see_what_is_restored():
    rng = np.random.default_rng(0)
    clean = [rng.normal(size=(60, d)) for d in (4, 3)]
    noisy = [clean[0], clean[1] + 1.0]
    draw = views_mfeat.Draw(clean, noisy, clean, np.arange(60) % 10, 1)
    codes = np.eye(10)[draw.labels]
    kept = draw.facts(codes, noisy)
    assert kept["classes"] == pytest.approx(1) and kept["rank"] == 10
    assert kept["noisy"] == pytest.approx(np.square(clean[1]).sum() / clean[1].size)
    assert kept["all"] > kept["noisy"]
    assert draw.facts(codes, [clean[0], clean[1] + 0.1])["noisy"] == pytest.approx(
        100 * kept["noisy"]
    )
    assert views_mfeat.of_components(draw, 7)["all"] == pytest.approx(kept["all"])
