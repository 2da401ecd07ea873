"""What a package needs to be installed by strangers: its recipe, its types, its public names."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regfactor

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# what a user writes under mypy --strict
TYPED = '''
import numpy as np

import regfactor
from regfactor import AutoImputer, ConvexSubspace, FactorModel, solve
from regfactor.losses import Huber
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data
from regfactor.testing import check_loss


def filled(X: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Use estimators, parts, problems and functions."""
    model = ConvexSubspace(alpha=1.0).fit(X)
    imputer = AutoImputer(random_state=0).fit(X)
    check_loss(Huber(delta=0.8))
    solution = solve(Convex(Data.of(X, Huber(0.5)), Trace(), alpha=2.0))
    FactorModel(Huber(), gauge=Trace()).fit(X)
    regfactor.save(model, "model.skops")
    return float(model.complete(X).sum() + imputer.transform(X).sum() + solution.objective)
'''


def test_the_recipe_has_the_version_and_the_dependencies_of_the_project():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = recipe.partition("  run:\n")[2].partition("  run_constraints:")[0]
    found = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", run))
    assert found.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    assert found == dict(dependency.split(">=") for dependency in PROJECT["dependencies"])


@pytest.mark.slow
def test_types_are_complete_for_users_under_strict_mypy(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(TYPED)
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "user.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_marker_of_types_is_there():
    assert (Path(regfactor.__file__).parent / "py.typed").is_file()
