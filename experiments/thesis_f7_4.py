"""White's thesis (2014), figure 7.4: forecasts and coefficients with and without the moving-average part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments._runner import Cell, Experiment, Plan, Record
from experiments._series import stated_arma
from regfactor.datasets import make_arma

LAGS = (1, 2, 3, 4, 5, 6)
LOG_VARIANCES = (-8.0, -6.0, -4.0, -3.0, -2.0, 0.0)
ROWS, AHEAD, SEEDS = 50, 10, 30
WHOLE, AR, LONG = "RARMA(p, q)", "RARMA(p, 0)", "RARMA(p + q, 0)"
MEASURES = {
    "one step": "first forecast",
    "forecast": f"forecasts 1 to {AHEAD}",
    "coefficients": "coefficients A_1..A_p",
}
NOTES = (
    f"n = p = q, {ROWS} + p + q rows seen, l1 errors. Ratios err(without) / err(RARMA(p, q)): "
    "medians over seeds of each series' own ratio; above 1 the moving-average part helps. Models "
    "are drawn by `make_arma` (n = p leaves one root, real and 0.999, to each lag), starts lie in "
    "the unit ball, innovations have the stated variance. All three models are the same code at "
    "the library's default strengths (ridge 1e-3, shrinkage 0.1), roots capped at 1. The thesis "
    "shows heat maps without numbers: better forecasts with the moving average, about the same or "
    "worse coefficients."
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

    def run(self, cell: Cell) -> dict[str, dict[str, float]]:
        p = cell["p"]
        X, A = draw(p, cell["log_variance"], cell["seed"])
        seen = len(X) - AHEAD
        models = {WHOLE: (p, p), AR: (p, 0), LONG: (2 * p, 0)}
        result = {}
        for name, (lags, q) in models.items():
            model = stated_arma(lags, q).fit(X[:seen])
            gaps = np.abs(model.forecast(AHEAD).mean - X[seen:])
            sizes = {
                "one step": gaps[0].sum(),
                "forecast": gaps.sum(),
                "coefficients": np.abs(model.ar_[:p] - A).sum(),
            }
            result[name] = {measure: float(f"{size:.6g}") for measure, size in sizes.items()}
        mean = np.abs(X[:seen].mean(axis=0) - X[seen:])
        result["MEAN"] = {
            "one step": float(f"{mean[0].sum():.6g}"),
            "forecast": float(f"{mean.sum():.6g}"),
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
            for other in (AR, LONG, "MEAN"):
                for measure in results[0][other]:
                    logs = np.log([r[other][measure] / r[WHOLE][measure] for r in results])
                    spread = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else None
                    row = {
                        "p": p,
                        "log_variance": v,
                        "against": other,
                        "measure": measure,
                        "n": len(logs),
                    }
                    rows.append(
                        row
                        | {
                            "median": float(f"{np.exp(np.median(logs)):.4g}"),
                            "log_mean": float(f"{logs.mean():.4g}"),
                            "log_error": None if spread is None else float(f"{spread:.4g}"),
                        }
                    )
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        parts = [NOTES]
        for measure, words in MEASURES.items():
            for other in (AR, LONG):
                rows = [r for r in summary if r["measure"] == measure and r["against"] == other]
                parts.append(f"## {words}: {other} over {WHOLE}\n\n{grid(rows)}")
        rows = [r for r in summary if r["measure"] == "forecast" and r["against"] == "MEAN"]
        parts.append(f"## forecasts 1 to {AHEAD}: the training mean over {WHOLE}\n\n{grid(rows)}")
        return "\n\n".join([*parts, verdicts(summary)])

    def draw(self, summary: list[dict[str, Any]], folder: Path) -> list[Path]:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 6), layout="constrained")
        panels = figure.subplots(2, len(MEASURES))
        for line, other in zip(panels, (AR, LONG), strict=True):
            for axes, (measure, words) in zip(line, MEASURES.items(), strict=True):
                rows = [r for r in summary if r["measure"] == measure and r["against"] == other]
                values = np.full((len(LOG_VARIANCES), len(LAGS)), np.nan)
                for r in rows:
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


def verdicts(summary: list[dict[str, Any]]) -> str:
    """Count the cells in which the moving average helps or hurts beyond chance."""
    lines = []
    for measure, words in MEASURES.items():
        for other in (AR, LONG):
            rows = [
                r
                for r in summary
                if r["measure"] == measure and r["against"] == other and r["log_error"]
            ]
            bound = critical(len(rows))
            up = sum(r["log_mean"] > bound * r["log_error"] for r in rows)
            down = sum(r["log_mean"] < -bound * r["log_error"] for r in rows)
            middle = np.exp(np.median([np.log(r["median"]) for r in rows])) if rows else np.nan
            lines.append(
                f"- {words}, against {other}: lower error in {up} of {len(rows)} cells, higher in "
                f"{down}, no difference shown in {len(rows) - up - down}; median ratio "
                f"{middle:.3g}."
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
