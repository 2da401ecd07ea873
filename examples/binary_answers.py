"""Binary answers with missing entries: predict the missing answers and their probabilities.

600 people answered 40 questions, a third of the answers is missing. Binary PCA fits two traits by
the Bernoulli likelihood; ordinary PCA, on the same answers with means in place of the missing ones,
predicts numbers that are not probabilities.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.decomposition import PCA

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ExponentialFamilyPCA

PEOPLE, QUESTIONS, TRAITS = 600, 40, 2


def draw(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers with NaN where missing, all answers, and their probabilities."""
    rng = np.random.default_rng(seed)
    theta = 1.3 * rng.normal(size=(PEOPLE, TRAITS)) @ rng.normal(
        size=(TRAITS, QUESTIONS)
    ) + rng.normal(size=QUESTIONS)
    probability = 1 / (1 + np.exp(-theta))
    answers = (rng.random(theta.shape) < probability).astype(float)
    return np.where(rng.random(theta.shape) < 1 / 3, np.nan, answers), answers, probability


def log_loss(p: np.ndarray, answers: np.ndarray) -> float:
    """Mean log loss in bits."""
    p = np.clip(p, 1e-3, 1 - 1e-3)
    return float(-(answers * np.log2(p) + (1 - answers) * np.log2(1 - p)).mean())


def predictions(seen: np.ndarray) -> dict[str, np.ndarray]:
    """Predicted probabilities of all answers by three methods."""
    mean = np.nanmean(seen, axis=0)
    filled = np.where(np.isnan(seen), mean, seen)
    pca = PCA(TRAITS).fit(filled)
    binary = ExponentialFamilyPCA(TRAITS, family="bernoulli", alpha="auto", random_state=0).fit(
        seen
    )
    return {
        "share of the question": np.broadcast_to(mean, seen.shape),
        "PCA, missing filled by means": pca.inverse_transform(pca.transform(filled)),
        "ExponentialFamilyPCA": binary.inverse_transform(binary.transform(seen)),
    }


def example() -> tuple[str, Any]:
    """Evaluate the predictions on the hidden answers."""
    import matplotlib.pyplot as plt

    seen, answers, _ = draw()
    hidden = np.isnan(seen)
    figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.8")
    lines = [f"{hidden.sum()} of {hidden.size} answers are missing; on those:"]
    for name, p in predictions(seen).items():
        p = np.clip(p[hidden], 0, 1)
        right = ((p > 0.5) == answers[hidden]).mean()
        lines.append(
            f"{name}: {right:.1%} right, {log_loss(p, answers[hidden]):.3f} bits of log loss"
        )
        axes.plot(
            *calibration_curve(answers[hidden], p, n_bins=10)[::-1], "o-", markersize=3, label=name
        )
    axes.set(xlabel="predicted probability of yes", ylabel="share of yes among the hidden answers")
    axes.legend(frameon=False)
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
