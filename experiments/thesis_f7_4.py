"""White's thesis (2014), figure 7.4: forecasts and coefficients with and without the moving-average part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments._runner import Cell, Experiment, Plan, Record
from experiments._series import fitted_arma, iterated
from regfactor.datasets import make_arma
from regfactor.series.arma.problem import FittedModel

LAGS = (1, 2, 3, 4, 5, 6)
LOG_VARIANCES = (-8.0, -6.0, -4.0, -3.0, -2.0, 0.0)
ROWS, AHEAD, SEEDS = 50, 10, 30
STRENGTHS = (0.5, 0.1, 0.02)  # alpha, as a share of the least one at which W is zero
SHOWN = 0.1  # of which grids and the figure are
WHOLE, AR, LONG = "RARMA(p, q)", "RARMA(p, 0)", "RARMA(p + q, 0)"
RIDGE, LONG_RIDGE = "ridge VAR(p)", "ridge VAR(p + q)"
OTHERS = (AR, LONG, RIDGE, LONG_RIDGE)
MEASURES = {
    "one step": "first forecast",
    "forecast": f"forecasts 1 to {AHEAD}",
    "coefficients": "coefficients A_1..A_p",
}
NOTES = (
    f"n = p = q, {ROWS} + p + q rows seen, l1 errors. Ratios err(without) / err(RARMA(p, q)): "
    "medians over seeds of each series' own ratio; above 1 the moving-average part helps. Models "
    "are drawn by `make_arma` (n = p leaves one root, real and 0.999, to each lag), starts lie in "
    "the unit ball, innovations have the stated variance. RARMA(p, 0) and RARMA(p + q, 0) are the "
    "same code with q = 0, as in the thesis: innovations of the same time stay, under the trace "
    "norm, and only their lags are left out. The ridge VARs have no innovations at all, which is "
    "what RegularizedARMA makes of q = 0. Strengths alpha / alpha_max are "
    + ", ".join(f"{s:g}" for s in STRENGTHS)
    + f" (grids and figure: {SHOWN:g}), the ridge is 1e-3, roots are capped at 1; the thesis states "
    "neither. It shows heat maps without numbers: better forecasts with the moving average, about "
    "the same or worse coefficients."
)
SURE = 0.05


def draw(p: int, log_variance: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a series of p variables and its A: p starting rows in the unit ball, innovations of a given variance."""
    T, n = ROWS + 2 * p + AHEAD, p
    _, A, B = make_arma(1, n, p, p, return_parameters=True, random_state=seed)
    random = np.random.RandomState([seed, p])
    start = random.standard_normal((p, n))
    start *= random.uniform(size=(p, 1)) ** (1 / n) / np.linalg.norm(start, axis=1, keepdims=True)
    e = np.exp(log_variance / 2) * random.standard_normal((T + p, n))
    X = [*start, *sum(e[p - j : p - j + T] @ B[j].T for j in range(p + 1))]
    for t in range(p, len(X)):
        X[t] = X[t] + sum(A[i] @ X[t - 1 - i] for i in range(p))
    return np.array(X[p:]), A


class HeatMaps(Experiment):
    """One cell for each lag, variance and seed."""

    title = "with and without the moving-average part (White 2014, figure 7.4)"

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        seeds = range(plan.n_splits(SEEDS))
        return [
            {"p": p, "log_variance": v, "seed": seed}
            for p in LAGS
            for v in LOG_VARIANCES
            for seed in seeds
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        p = cell["p"]
        X, A = draw(p, cell["log_variance"], cell["seed"])
        past = X[:-AHEAD]
        future = X[-AHEAD:]

        def sizes(model: FittedModel) -> dict[str, float]:
            gaps = np.abs(iterated(model, AHEAD) - future)
            learned = np.abs(model.model.ar[:p] - A)
            return measured(gaps, learned)

        result: dict[str, Any] = {
            RIDGE: sizes(fitted_arma(past, p, 0, 1.0)),
            LONG_RIDGE: sizes(fitted_arma(past, 2 * p, 0, 1.0)),
            "MEAN": measured(np.abs(past.mean(axis=0) - future)),
        }
        for strength in STRENGTHS:
            result[f"{strength:g}"] = {
                WHOLE: sizes(fitted_arma(past, p, p, strength)),
                AR: sizes(fitted_arma(past, p, 0, strength)),
                LONG: sizes(fitted_arma(past, 2 * p, 0, strength)),
            }
        return result

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        groups: dict[tuple[int, float], list[Any]] = {}
        for record in done.values():
            if "result" in record:
                groups.setdefault((record["cell"]["p"], record["cell"]["log_variance"]), []).append(
                    record["result"]
                )
        rows = []
        for (p, v), results in groups.items():
            for strength in STRENGTHS:
                for other in (*OTHERS, "MEAN"):
                    pairs = [errors_of(r, strength, other) for r in results]
                    for measure in pairs[0][1]:
                        logs = np.log([theirs[measure] / ours[measure] for ours, theirs in pairs])
                        rows.append(
                            {
                                "p": p,
                                "log_variance": v,
                                "strength": strength,
                                "against": other,
                                "measure": measure,
                                **spread_of(logs),
                            }
                        )
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        parts = [NOTES, f"## All strengths\n\n{strengths(summary)}"]
        for measure, words in MEASURES.items():
            for other in (AR, LONG):
                rows = chosen(summary, measure, other, SHOWN)
                parts.append(f"## {words}: {other} over {WHOLE}\n\n{grid(rows)}")
        rows = chosen(summary, "forecast", "MEAN", SHOWN)
        parts.append(f"## forecasts 1 to {AHEAD}: the training mean over {WHOLE}\n\n{grid(rows)}")
        return "\n\n".join([*parts, verdicts(summary)])

    def draw(self, summary: list[dict[str, Any]], folder: Path) -> list[Path]:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 6), layout="constrained")
        panels = figure.subplots(2, len(MEASURES))
        for line, other in zip(panels, (AR, LONG), strict=True):
            for axes, (measure, words) in zip(line, MEASURES.items(), strict=True):
                values = np.full((len(LOG_VARIANCES), len(LAGS)), np.nan)
                for r in chosen(summary, measure, other, SHOWN):
                    values[LOG_VARIANCES.index(r["log_variance"]), LAGS.index(r["p"])] = np.log2(
                        r["median"]
                    )
                image = axes.imshow(
                    values, cmap="RdBu", vmin=-2, vmax=2, origin="lower", aspect="auto"
                )
                axes.set(
                    title=f"{words}: {other}",
                    xticks=range(len(LAGS)),
                    xticklabels=LAGS,
                    xlabel="p = q = n",
                    yticks=range(len(LOG_VARIANCES)),
                    yticklabels=[f"e^{v:g}" for v in LOG_VARIANCES],
                )
                axes.title.set_fontsize(9)
        bar = figure.colorbar(image, ax=panels, ticks=[-2, -1, 0, 1, 2])
        bar.set_ticklabels(["0.25", "0.5", "1", "2", "4"])
        bar.set_label(f"error without / error of {WHOLE}; blue: the moving average helps")
        path = folder / "thesis-f7.4.png"
        figure.savefig(path, dpi=110)
        return [path]


def measured(gaps: np.ndarray, learned: np.ndarray | None = None) -> dict[str, float]:
    """Return the l1 errors of the first forecast, of all, and of coefficients where there are any."""
    found = {"one step": gaps[0].sum(), "forecast": gaps.sum()}
    if learned is not None:
        found["coefficients"] = learned.sum()
    return {measure: float(f"{size:.6g}") for measure, size in found.items()}


def errors_of(
    result: dict[str, Any], strength: float, other: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the errors of RARMA(p, q) at a strength, and of what it is held against."""
    found = result[f"{strength:g}"]
    return found[WHOLE], found.get(other, result.get(other))


def spread_of(logs: np.ndarray) -> dict[str, Any]:
    """Return number, median ratio, mean of logarithms and its standard error."""
    error = None
    if len(logs) > 1:
        error = float(f"{logs.std(ddof=1) / np.sqrt(len(logs)):.4g}")
    return {
        "n": len(logs),
        "median": float(f"{np.exp(np.median(logs)):.4g}"),
        "log_mean": float(f"{logs.mean():.4g}"),
        "log_error": error,
    }


def chosen(
    summary: list[dict[str, Any]], measure: str, other: str, strength: float
) -> list[dict[str, Any]]:
    """Return the rows of a measure, a rival and a strength."""
    return [
        r
        for r in summary
        if (r["measure"], r["against"], r["strength"]) == (measure, other, strength)
    ]


def strengths(summary: list[dict[str, Any]]) -> str:
    """Return for every strength and rival the median ratio, and in how many cells it is decided."""
    head = ["alpha / alpha_max", f"{WHOLE} against", *MEASURES.values()]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for strength in STRENGTHS:
        for other in OTHERS:
            cells = [count(chosen(summary, m, other, strength)).short for m in MEASURES]
            lines.append(f"| {strength:g} | {other} | {' | '.join(cells)} |")
    return (
        "Median ratio over all cells, and in how many the moving average is decided to help and to "
        "hurt.\n\n" + "\n".join(lines)
    )


def grid(rows: list[dict[str, Any]]) -> str:
    """Return medians by variance (down) and lag (across)."""
    found = {(r["p"], r["log_variance"]): r["median"] for r in rows}
    lines = [
        f"| variance | {' | '.join(f'p = {p}' for p in LAGS)} |",
        "|---" * (len(LAGS) + 1) + "|",
    ]
    for v in LOG_VARIANCES:
        cells = (f"{found[p, v]:.3g}" if (p, v) in found else "-" for p in LAGS)
        lines.append(f"| exp({v:g}) | {' | '.join(cells)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Count:
    """In how many cells the moving average helps, hurts, and is not decided."""

    up: int
    down: int
    cells: int
    median: float

    @property
    def short(self) -> str:
        """The count as an entry of a table."""
        return f"{self.median:.3g} (+{self.up}, -{self.down} of {self.cells})"


def count(rows: list[dict[str, Any]]) -> Count:
    """Decide every cell by the mean log ratio over seeds."""
    rows = [r for r in rows if r["log_error"]]
    bound = critical(len(rows))
    up = sum(r["log_mean"] > bound * r["log_error"] for r in rows)
    down = sum(r["log_mean"] < -bound * r["log_error"] for r in rows)
    middle = np.exp(np.median([np.log(r["median"]) for r in rows])) if rows else np.nan
    return Count(up, down, len(rows), float(middle))


def verdicts(summary: list[dict[str, Any]]) -> str:
    """Say in how many cells the moving average helps or hurts beyond chance."""
    lines = []
    for measure, words in MEASURES.items():
        for other in OTHERS:
            for strength in STRENGTHS:
                found = count(chosen(summary, measure, other, strength))
                same = found.cells - found.up - found.down
                lines.append(
                    f"- {words}, against {other}, alpha / alpha_max = {strength:g}: lower error in "
                    f"{found.up} of {found.cells} cells, higher in {found.down}, no difference "
                    f"shown in {same}; median ratio {found.median:.3g}."
                )
    return (
        "## Verdicts\n\nThe moving-average part, from the mean log ratio over seeds in each cell "
        f"(two-sided {SURE:g}, Bonferroni over the cells of a line):\n\n" + "\n".join(lines)
    )


def critical(tests: int) -> float:
    """Return the Gaussian quantile for so many tests."""
    from scipy.stats import norm

    return float(norm.isf(SURE / 2 / max(tests, 1)))


EXPERIMENT = HeatMaps()
