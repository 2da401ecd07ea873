"""Matrix completion: CPU against SoftImpute, held-out error against IterativeSVD, and a large sparse table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._peers import (
    QUICK,
    cpu,
    fancyimpute,
    grown,
    in_fresh_process,
    table,
    traced,
    versions,
)
from regfactor import ConvexSubspace, solve
from regfactor.losses import Squared
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data


@dataclass(frozen=True)
class Setting:
    """X = U V'/sqrt(rank) + noise with standard normal U and V, entries observed uniformly at random."""

    n: int
    d: int
    rank: int
    noise: float
    density: float

    @property
    def edge(self) -> float:
        """The largest singular value of noise on the observed entries, in the limit of large tables."""
        return self.noise * (np.sqrt(self.n * self.density) + np.sqrt(self.d * self.density))

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the table without noise, with noise, and where it is observed."""
        rng = np.random.default_rng(seed)
        Z = (
            rng.normal(size=(self.n, self.rank))
            @ rng.normal(size=(self.d, self.rank)).T
            / np.sqrt(self.rank)
        )
        return Z, Z + self.noise * rng.normal(size=Z.shape), rng.random(Z.shape) < self.density

    def sparse(self, seed: int) -> scipy.sparse.csr_array:
        """Return the observed entries alone; the dense table is gone on return."""
        _, X, observed = self.draw(seed)
        rows, columns = (index.astype(np.int32) for index in np.nonzero(observed))
        return scipy.sparse.csr_array((X[observed], (rows, columns)), shape=X.shape)


SMALL = Setting(60, 40, 2, 0.1, 0.5)
MEDIUM = Setting(1000, 500, 10, 0.1, 0.3)
LARGE, LARGE_ALPHA = (
    (Setting(1500, 600, 5, 0.3, 0.1), 6.6) if QUICK else (Setting(5000, 2000, 20, 0.3, 0.1), 12.0)
)
NOISES, RMSE_GOALS = (0.1, 0.5, 1.0), (1.0, 1.02, 1.02)
LARGE_GOALS = {1e-3: 0.3, 1e-4: 0.45}
TURNS = 3  # of which the medians are taken
SPEED_SEEDS, ERROR_SEEDS, LARGE_SEEDS = range(5), range(3), range(1 if QUICK else 2)


@dataclass(frozen=True, eq=False)
class Referee:
    """Judges matrices by dense full SVDs, with nothing taken over from a solver but points to try."""

    X: np.ndarray
    observed: np.ndarray
    alpha: float

    def objective(self, Z: np.ndarray) -> float:
        """|Z - X|^2/2 on the observed entries + alpha |Z|_tr."""
        R = self._residual(Z)
        return float(np.vdot(R, R) / 2 + self.alpha * np.linalg.svd(Z, compute_uv=False).sum())

    def bound(self, Y: np.ndarray) -> float:
        """The greatest dual value -(s^2/2 |Y|^2 + s <Y, X>) over the multiples of Y with s |Y|_sp <= alpha."""
        Y, X = np.where(self.observed, Y, 0), np.where(self.observed, self.X, 0)
        longest = self.alpha / np.linalg.svd(Y, compute_uv=False)[0]
        s = np.clip(-np.vdot(Y, X) / np.vdot(Y, Y), 0, longest)
        return float(-(s * s / 2 * np.vdot(Y, Y) + s * np.vdot(Y, X)))

    def best_bound(self, Z: np.ndarray, dual: np.ndarray | None) -> float:
        """The better bound of a solver's own dual point and the residual of its matrix."""
        points = [self._residual(Z)] if dual is None else [self._residual(Z), self._spread(dual)]
        return max(self.bound(Y) for Y in points)

    def gap(self, Z: np.ndarray, bound: float) -> float:
        """How far Z can be above the optimum, relatively."""
        objective = self.objective(Z)
        return (objective - bound) / objective

    def _spread(self, dual: np.ndarray) -> np.ndarray:
        """Return a dual point as a table, be it one or a number for each observed entry."""
        if dual.ndim == 2:
            return dual
        Y = np.zeros(self.X.shape)
        Y[self.observed] = dual
        return Y

    def _residual(self, Z: np.ndarray) -> np.ndarray:
        return np.where(self.observed, Z - np.where(self.observed, self.X, 0), 0)


def with_missing(X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the table as the estimators take it."""
    return np.where(observed, X, np.nan)


def shrunk(filled: np.ndarray, alpha: float) -> np.ndarray:
    """Return the low-rank matrix that SoftImpute filled a table with: its last step once more, exactly."""
    U, s, Vt = np.linalg.svd(filled, full_matrices=False)
    return (U * np.maximum(s - alpha, 0)) @ Vt


def of_model(model: ConvexSubspace) -> np.ndarray:
    """Return the model's matrix."""
    return model.codes_ @ model.components_


# --- against SoftImpute
# -----------------------------------------------------------------------------------------------


def speed(seed: int) -> list[str]:
    """Return a row: CPU of SoftImpute, of solve, of the estimator, and every gap claimed and recomputed."""
    alpha = MEDIUM.edge
    _, X, observed = MEDIUM.draw(seed)
    X = with_missing(X, observed)
    peer = fancyimpute("soft_impute").SoftImpute(shrinkage_value=alpha, max_rank=40, verbose=False)
    fits = (
        lambda: peer.fit_transform(X),
        lambda: solve(Convex(Data.of(X, Squared()), Trace(), alpha), tol=1e-4),
        lambda: ConvexSubspace(alpha=alpha, fit_intercept=False, scale=False, tol=1e-4).fit(X),
    )
    turns = [[cpu(fit) for fit in fits] for _ in range(TURNS)]
    theirs, ours, whole = (
        float(np.median([turn[j][0] for turn in turns])) for j in range(len(fits))
    )
    filled, solution, model = (found for _, found in turns[-1])
    factors, referee = solution.point.factors, Referee(X, observed, alpha)
    bound = referee.best_bound(factors.dense(), solution.point.dual)
    return [
        str(seed),
        f"{theirs:.2f} s",
        f"{referee.gap(shrunk(filled, alpha), bound):.1e}",
        f"{ours:.2f} s",
        f"**{ours / theirs:.2f}**",
        f"{solution.relative_gap:.1e} / "
        f"{referee.gap(factors.dense(), bound):.1e}{_proven(solution.rigorous)}",
        f"{solution.solver}, {solution.n_iter}, {factors.rank}",
        f"**{whole / theirs:.2f}**",
        f"{model.relative_gap_:.1e} / {referee.gap(of_model(model), bound):.1e}",
    ]


def _proven(rigorous: bool) -> str:
    return " proven" if rigorous else " numerical"


def warm_up() -> None:
    """Load what is loaded once, so that no timed call pays for it."""
    _, X, observed = SMALL.draw(0)
    X = with_missing(X, observed)
    fancyimpute("soft_impute").SoftImpute(
        shrinkage_value=1.0, max_rank=5, verbose=False
    ).fit_transform(X)
    ConvexSubspace(alpha=1.0, fit_intercept=False, scale=False).fit(X)


def speed_section() -> list[str]:
    head = (
        "seed | SoftImpute CPU | it ends above the optimum by | `solve` CPU | / SoftImpute | gap "
        "claimed / recomputed | solver, iterations, rank | estimator / SoftImpute | gap claimed / "
        "recomputed"
    )
    return [
        f"## {MEDIUM.n} x {MEDIUM.d} to a gap of 1e-4, against SoftImpute",
        "",
        f"Rank {MEDIUM.rank}, noise {MEDIUM.noise}, {MEDIUM.density:.0%} observed; alpha = "
        f"{MEDIUM.edge:.3f} = noise (sqrt(n density) + sqrt(d density)), the edge of the noise's "
        "spectrum. SoftImpute(max_rank=40) has the same shrinkage and stops by its own default "
        "rule. Gaps are recomputed from scratch by dense full SVDs. CPU is the median of three "
        "turns. Goal: 1/4 of SoftImpute's.",
        "",
        *table(head, [speed(seed) for seed in SPEED_SEEDS]),
    ]


# --- against IterativeSVD
# ---------------------------------------------------------------------------------------------


def error(noise: float, seed: int) -> dict[str, float]:
    """Return held-out errors and CPU of both at a level of noise."""
    Z, X, observed = Setting(MEDIUM.n, MEDIUM.d, MEDIUM.rank, noise, MEDIUM.density).draw(seed)
    X = with_missing(X, observed)
    peer = fancyimpute("iterative_svd").IterativeSVD(rank=MEDIUM.rank, verbose=False)
    theirs, filled = cpu(lambda: peer.fit_transform(X))
    model = ConvexSubspace(alpha="auto", debias=True, fit_intercept=False, scale=False)
    ours, completed = cpu(lambda: model.fit(X).complete(X))
    rmse = [float(np.sqrt(np.square((F - Z)[~observed]).mean())) for F in (completed, filled)]
    return {
        "ours": rmse[0],
        "theirs": rmse[1],
        "cpu": ours / theirs,
        "rank": len(model.components_),
    }


def error_row(noise: float, goal: float) -> list[str]:
    runs = [error(noise, seed) for seed in ERROR_SEEDS]
    ratios = [run["ours"] / run["theirs"] for run in runs]

    def listed(values: list[float], digits: int) -> str:
        return " / ".join(f"{value:.{digits}f}" for value in values)

    return [
        f"{noise}",
        listed([run["ours"] for run in runs], 4),
        listed([run["theirs"] for run in runs], 4),
        f"**{listed(ratios, 3)}**",
        f"{goal}",
        listed([run["rank"] for run in runs], 0),
        listed([run["cpu"] for run in runs], 2),
    ]


def error_section() -> list[str]:
    head = "noise | ours | IterativeSVD(rank=10) | ratio | goal | components found | CPU ratio"
    return [
        f"## {MEDIUM.n} x {MEDIUM.d}: error on unobserved entries, against IterativeSVD with the "
        "true rank",
        "",
        'RMSE against the table without noise. Ours is `ConvexSubspace(alpha="auto", debias=True, fit_intercept=False, scale=False)`'
        f", which is told neither rank nor noise; seeds {', '.join(map(str, ERROR_SEEDS))}. The CPU is that of "
        "choosing, fitting and filling.",
        "",
        *table(
            head, [error_row(noise, goal) for noise, goal in zip(NOISES, RMSE_GOALS, strict=True)]
        ),
    ]


# --- large and sparse
# -------------------------------------------------------------------------------------------------


def certified(X: Any, tol: float) -> Any:
    """Solve the large problem."""
    return solve(Convex(Data.of_sparse(X, Squared()), Trace(), LARGE_ALPHA), tol=tol)


def fitted(X: Any, tol: float) -> ConvexSubspace:
    """Fit the large problem by the estimator."""
    return ConvexSubspace(alpha=LARGE_ALPHA, fit_intercept=False, scale=False, tol=tol).fit(X)


ROUTES = {"solve": certified, "estimator": fitted}


def memory(route: str, tol: float, trace: bool) -> float:
    """Return the MB that one route takes beyond its data; for a fresh process."""
    ROUTES[route](SMALL.sparse(0), tol)  # what is loaded once is not the problem's
    X = LARGE.sparse(0)
    if trace:
        return traced(lambda: ROUTES[route](X, tol))
    return grown(lambda: ROUTES[route](X, tol))[0]


def large(seed: int) -> list[list[str]]:
    """Return a row for each route and tolerance, with CPU in units of one thin SVD of the dense table."""
    _, dense, observed = LARGE.draw(seed)
    referee = Referee(dense, observed, LARGE_ALPHA)
    unit, _ = cpu(lambda: np.linalg.svd(dense, full_matrices=False))
    X, rows = LARGE.sparse(seed), []
    for tol, goal in LARGE_GOALS.items():
        ours, solution = cpu(lambda tol=tol: certified(X, tol))
        whole, model = cpu(lambda tol=tol: fitted(X, tol))
        Z = solution.point.factors.dense()
        bound = referee.best_bound(Z, solution.point.dual)
        gaps = (
            (solution.relative_gap, referee.gap(Z, bound)),
            (model.relative_gap_, referee.gap(of_model(model), bound)),
        )
        how = (
            f"{solution.solver}, {solution.n_iter}, "
            f"{solution.point.factors.rank}{_proven(solution.rigorous)}"
        )
        for route, seconds, pair in zip(ROUTES, (ours, whole), gaps, strict=True):
            shares = [f"{unit:.1f} s", f"{seconds:.2f} s", f"**{seconds / unit:.2f}**", f"{goal}"]
            rows.append(
                [str(seed), f"{tol:g}", route, *shares, f"{pair[0]:.1e} / {pair[1]:.1e}", how]
            )
    return rows


def memory_row(route: str, tol: float) -> list[str]:
    peaks = [in_fresh_process(memory, route, tol, trace) for trace in (False, True)]
    return [route, f"{tol:g}", *(f"{peak:.0f} MB" for peak in peaks)]


def large_section() -> list[str]:
    head = (
        "seed | tol | through | thin SVD | CPU | in SVDs | goal | gap claimed / recomputed | "
        "solver, iterations, rank"
    )
    return [
        f"## {LARGE.n} x {LARGE.d}, a sparse table with {LARGE.density:.0%} stored",
        "",
        f"Rank {LARGE.rank}, noise {LARGE.noise}, alpha = {LARGE_ALPHA:g} (the noise's edge is "
        f"{LARGE.edge:.1f}). The unit is one `numpy.linalg.svd(full_matrices=False)` of the dense "
        "table in the same run; goals are those for 5000 x 2000.",
        "",
        *table(head, [row for seed in LARGE_SEEDS for row in large(seed)]),
        "",
        "Memory beyond the data, each in a fresh process: growth of the resident peak, and the "
        "peak of traced allocations in a run of its own. Goal: 150 MB.",
        "",
        *table(
            "through | tol | resident | traced",
            [memory_row(route, tol) for tol in LARGE_GOALS for route in ROUTES],
        ),
    ]


def main() -> str:
    """Run the three parts and return the tables."""
    warm_up()
    lines = [
        "# Matrix completion",
        "",
        f"One thread, CPU seconds; {versions('scikit-learn', 'fancyimpute')}.",
        "",
    ]
    return "\n".join([*lines, *speed_section(), "", *error_section(), "", *large_section()]) + "\n"
