"""What commands say: cautions where they belong, nothing left out without a word, rows counted as people do."""

import numpy as np
import pandas as pd
from console import command

from regfactor.cli.cluster import _real, _stable


def written(path, **columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_groups_of_noise_are_doubted_on_the_terminal_too(tmp_path):
    a, b = np.random.default_rng(0).normal(size=(2, 400))
    done = command("cluster", written(tmp_path / "t.csv", a=a, b=b))
    assert done.code == 0 and "only one above about 0.5 speaks for groups" in done.out, done
    assert _real({3: 0.6}, 3) == "" == _real({}, 3)


def test_starts_that_agree_nearly_are_not_called_the_same():
    assert _stable(1.0, 3).endswith("gave the same groups.")
    assert "gave nearly the same groups (agreement 0.97 of 1)" in _stable(0.97, 3)
    assert "though" not in _stable(0.3, 3) + _real({3: 0.16}, 3)


def test_help_says_what_becomes_of_holes_in_clusters():
    said = " ".join(command("cluster", "--help").out.split())
    assert "median" in said and "(missing)" in said
