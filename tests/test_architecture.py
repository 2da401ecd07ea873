"""The rules of CONTRIBUTING.md: imports go one way, nothing public is forgotten."""

import ast
import dataclasses
import graphlib
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import catalogue
import regfactor
from regfactor.core.params import UnsupportedProblem
from regfactor.fitting.base import Estimator
from regfactor.kernels import Kernel
from regfactor.losses import LOSSES, Huber, Loss
from regfactor.losses.distances import Divergence
from regfactor.losses.divergences import DIVERGENCES
from regfactor.losses.potentials import Potential
from regfactor.maps import Map
from regfactor.norms import Norm
from regfactor.penalties import Gauge, Penalty
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver, solve

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regfactor"
FAMILIES = {"tables", "clusters", "views", "labels", "series"}
LAYERS = [  # a package imports from its own layer and the earlier ones
    {"core"},
    {"losses", "norms", "kernels", "maps"},
    {"penalties", "constraints"},
    {"engine"},
    {"problems"},
    {"solvers"},
    {"fitting"},
    FAMILIES,
    {"model_selection", "datasets", "comparisons", "inference"},
    {
        "baselines",
        "atlas",
        "plots",
        "saving",
        "sktime",
        "nixtla",
        "anndata",
        "dask",
        "testing",
        "versions",
    },
    {"report"},
    {"cli"},
    {"regfactor", "__main__"},  # the facade
]
LAYER_OF = {package: height for height, layer in enumerate(LAYERS) for package in layer}
ROLES = {  # where the parts of a role are exported, and which tables of the catalogue may hold them
    "regfactor.losses": (Loss, ["LOSSES"]),
    "regfactor.losses.potentials": (Potential, ["POTENTIALS"]),
    "regfactor.losses.distances": (Divergence, ["DIVERGENCES"]),
    "regfactor.losses.divergences": (Divergence, ["DIVERGENCES"]),
    "regfactor.norms": (Norm, ["NORMS"]),
    "regfactor.kernels": (Kernel, ["KERNELS"]),
    "regfactor.maps": (Map, ["MAPS"]),
    "regfactor.penalties": ((Penalty, Gauge), ["PENALTIES", "GAUGES"]),
    "regfactor": (BaseEstimator, ["ESTIMATORS"]),
}
NOT_PARTS = {
    "Bregman": "a role: every concrete loss names its potential",
    "Stacked": "never evaluated, only taken apart",
}
OPTIONAL = {"sktime", "dask", "cli", "__main__"}  # need packages that the library does not
ON_REQUEST = {  # solvers that no problem names
    "Local": "a comparison",
    "Staged": "a comparison",
    "SimplexSearch": "a comparison",
    "PartwiseFista": "named by its gauge",
}
UNTRIED = {
    "BlockSquares",  # of tables in blocks, tried in test_blocks
    "BlockSweeps",
    "BlockClusters",  # the same for clusters, tried in test_block_clusters
    "ClassPool",  # of SemiSupervisedClassifier, tried with it
    "ChosenSNF",  # SNF with the start and limits of cross-validation, tried in test_snf
    "CascadePool",  # tried in test_auto_imputer
    "MixturePool",  # tried in test_auto_mixture
    "MemberFits",  # of pools, tried in test_pool
    "RegressionPool",  # tried in test_semi_supervised_regressor
    "ForecastPool",  # tried in test_auto_forecaster
}


def dotted(path):
    """The import name of a file: a/b.py is a.b, a/__init__.py is a."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
every_module = pytest.mark.parametrize("name", MODULES)


def package(name):
    """The package of a module: losses for regfactor.losses.base, regfactor for itself."""
    return name.split(".")[1] if "." in name else name


def imports(name):
    """The files of this package that a file names in an import, wherever in the file the import stands."""
    wanted = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            wanted |= {f if f in MODULES else node.module for f in full}
    return {w for w in wanted if w in MODULES}


def parts(module, role):
    """The concrete public classes of a role, by name."""
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    classes = {
        name: getattr(module, name) for name in names if inspect.isclass(getattr(module, name))
    }
    return {
        name: cls
        for name, cls in classes.items()
        if issubclass(cls, role) and not inspect.isabstract(cls) and name not in NOT_PARTS
    }


def test_there_is_something_to_check():
    assert len(MODULES) > 10


@every_module
def test_warnings_find_the_line_of_the_user(name):
    assert name == "regfactor.core.params" or "stacklevel" not in MODULES[name].read_text(
        encoding="utf-8"
    ), "use warn"


@every_module
def test_imports_go_one_way(name):
    assert package(name) in LAYER_OF, f"{name}: add {package(name)!r} to a layer of LAYERS"
    higher = {i for i in imports(name) if LAYER_OF.get(package(i), -1) > LAYER_OF[package(name)]}
    assert not higher, f"{name} imports from a later layer: {sorted(higher)}"


def family(name):
    """The family of a module, None outside of the families; those of labels count each."""
    parts = name.split(".")[1:]
    if not parts or parts[0] not in FAMILIES:
        return None
    return ".".join(parts[:2]) if parts[0] == "labels" else parts[0]


@every_module
def test_families_never_import_each_other(name):
    if family(name) is not None:
        others = {i for i in imports(name) if family(i) not in (None, family(name))}
        assert not others, f"{name} imports from another family: {sorted(others)}"


def test_no_file_imports_itself_through_others():
    try:
        graphlib.TopologicalSorter({name: imports(name) for name in MODULES}).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@every_module
def test_imports_are_absolute(name):
    relative = [
        n.lineno for n in ast.walk(TREES[name]) if isinstance(n, ast.ImportFrom) and n.level
    ]
    assert not relative, f"{name}: relative imports in lines {relative}"


@every_module
def test_every_file_says_what_it_is(name):
    assert ast.get_docstring(TREES[name])


# the same mathematics in two roles: a potential and its loss, a loss and a distribution of clusters;
# and the constraints on factors and on labels, both public
SAME_NAME = {
    "Constraint",
    "Gamma",
    "Identity",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
}


ADAPTERS = {"dask", "nixtla", "sktime"}  # of estimators, under their names


def test_a_class_name_is_used_once():
    homes = {}
    for name, tree in TREES.items():
        if package(name) in ADAPTERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert set(twice) == SAME_NAME, twice


OF_A_RUN = {"objective_", "status_", "solver_", "n_iter_", "history_", "_certificate"}


@every_module
def test_what_a_run_reports_is_set_by_the_common_fit_alone(name):
    if package(name) == "comparisons" or name == "regfactor.fitting.base":
        return
    stored = [
        f"{node.attr} in line {node.lineno}"
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr in OF_A_RUN
    ]
    assert not stored, f"{name} sets {stored}; return a Solution, which `Estimator._record` takes"


@every_module
def test_nothing_is_kept_from_the_formatter(name):
    assert not re.search(r"# *fmt: *(off|skip)", MODULES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", ROLES)
def test_every_public_part_is_in_the_catalogue(module):
    role, tables = ROLES[module]
    found = parts(importlib.import_module(module), role)
    assert found, f"{module} exports no part"
    listed = {type(part) for table in tables for part in getattr(catalogue, table).values()}
    forgotten = sorted(name for name, cls in found.items() if cls not in listed)
    assert not forgotten, f"add to {' or '.join(tables)} in tests/catalogue.py: {forgotten}"


def concrete(role):
    """The concrete classes of a role that any file of the package defines."""
    for name in MODULES:
        if package(name) not in OPTIONAL:
            importlib.import_module(name)
    found = set()
    open_ = [role]
    while open_:
        for cls in open_.pop().__subclasses__():
            open_.append(cls)
            if not inspect.isabstract(cls) and cls.__module__.startswith("regfactor."):
                found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def test_every_estimator_of_a_family_is_exported_and_in_the_catalogue():
    estimators = [c for c in concrete(Estimator) if package(c.__module__) in FAMILIES]
    public = {cls for cls in estimators if not cls.__name__.startswith("_")}
    assert public
    hidden = sorted(cls.__name__ for cls in public if cls.__name__ not in regfactor.HOMES)
    assert not hidden, f"add to HOMES and __all__ in regfactor/__init__.py: {hidden}"
    listed = {type(model) for model in catalogue.ESTIMATORS.values()}
    forgotten = sorted(cls.__name__ for cls in public - listed)
    assert not forgotten, f"add to ESTIMATORS in tests/catalogue.py: {forgotten}"


def test_the_lists_of_public_names_agree():
    typed = set()
    for node in TREES["regfactor"].body:
        if isinstance(node, ast.If):
            for statement in node.body:
                typed |= {f"{statement.module}.{alias.name}" for alias in statement.names}
    homes = {f"regfactor.{home}.{name}" for name, home in regfactor.HOMES.items()}
    assert typed == homes, "the imports under TYPE_CHECKING are not those of HOMES"
    assert set(regfactor.HOMES) == set(regfactor.__all__), "__all__ does not list all of HOMES"


def test_every_solver_declares_the_problem_that_it_solves():
    for solver in concrete(Solver):
        solves = getattr(solver, "solves", None)
        assert solves is not None, f"{solver.__name__} has no class attribute solves"
        assert issubclass(solves, Problem), solver.__name__


def solver_class(name):
    """The class that a problem names by "package.module:Class"."""
    module, _, own = name.partition(":")
    return getattr(importlib.import_module(module), own)


def test_problems_name_solvers_that_exist():
    for problem in concrete(Problem):
        assert problem.solvers, f"{problem.__name__} names no solver"
        for name in problem.solvers:
            assert issubclass(solver_class(name), Solver), name


def test_every_solver_is_named_by_a_problem():
    named = {solver_class(name) for problem in concrete(Problem) for name in problem.solvers}
    idle = {s.__name__ for s in concrete(Solver) if s not in named} - set(ON_REQUEST) - UNTRIED
    assert not idle, f"name it in `solvers` of the problem that it solves, or in ON_REQUEST: {idle}"


def test_every_solver_and_problem_is_in_the_catalogue():
    listed = {type(case.solver) for case in catalogue.SOLVERS.values()}
    forgotten = {s.__name__ for s in concrete(Solver) if s not in listed} - UNTRIED
    assert not forgotten, f"add to SOLVERS in tests/catalogue.py: {forgotten}"
    listed = {type(problem) for problem in catalogue.PROBLEMS.values()}
    stated = {p for p in concrete(Problem) if p.__name__ not in UNTRIED}
    forgotten = [p.__name__ for p in stated if not any(issubclass(t, p) for t in listed)]
    assert not forgotten, f"add to PROBLEMS in tests/catalogue.py: {forgotten}"


def test_every_public_name_is_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    public = {name for name in regfactor.__all__ if not name.startswith("_")}
    missing = sorted(name for name in public if not re.search(rf"\b{name}\b", readme))
    assert not missing, f"say in README.md what these are: {missing}"


def test_the_readme_counts_losses_and_divergences():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    words = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
    divergences = f"clusters under {words.get(len(DIVERGENCES), len(DIVERGENCES))} divergences"
    losses = f"| losses of a table | {len(LOSSES)}, mixed by column |"
    lacking = [count for count in (divergences, losses) if count not in readme]
    assert not lacking, f"correct the counts of README.md, which should hold: {lacking}"


def test_contributing_shows_the_code_as_it_is():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert inspect.getsource(Huber) in guide
    command = (PACKAGE / "cli" / "app.py").read_text(encoding="utf-8")
    shown = guide.partition("```python\n@app.command()")[2].partition("```")[0]
    assert "def embed" in shown and shown in command


def test_the_examples_of_contributing_run():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = {"__name__": "contributing"}
    for block in re.findall(r"```python\n(from .*?)```", guide, re.DOTALL):
        exec(block, names)
    X = np.random.default_rng(0).normal(size=(20, 4)) * [3.0, 3.0, 3.0, 0.01]
    model = names["ColumnSelection"](alpha=2.0).fit(X)
    np.testing.assert_array_equal(
        np.any(model.inverse_transform(model.codes_), axis=0), [1, 1, 1, 0]
    )
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-2)
    ridged = catalogue.PROBLEMS["forward_sigmoid"]
    descent = names["GradientDescent"]()
    found = solve(ridged, solver=descent, tol=1e-12, max_iter=20_000)
    assert found.objective == pytest.approx(solve(ridged).objective, rel=1e-6)
    free = dataclasses.replace(ridged, ridge=0 * ridged.ridge)
    with pytest.raises(UnsupportedProblem, match="ridge; use Newton"):
        solve(free, solver=descent)
    with pytest.raises(UnsupportedProblem, match="solves a Forward problem"):
        solve(catalogue.PROBLEMS["squared"], solver=descent)


def test_packages_are_reached_from_the_package_alone():
    done = subprocess.run(
        [sys.executable, "-c", "import regfactor; print(regfactor.atlas.table())"],
        capture_output=True,
    )
    assert {"inference", "maps"} <= set(regfactor.PACKAGES)
    assert done.returncode == 0 and b"Isomap" in done.stdout
    for name in regfactor.PACKAGES:
        assert getattr(regfactor, name).__name__ == f"regfactor.{name}"
    with pytest.raises(AttributeError, match="nothing"):
        regfactor.nothing  # noqa: B018
