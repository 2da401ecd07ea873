"""Defaults on several views: one view from others, gross errors, shared and private parts; the peers in one run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pyrpca import rpca_pcp_ialm
from scipy.linalg import subspace_angles
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from benchmarks._peers import QUICK, cpu, installed, table, versions
from regfactor import MultiViewSubspace, TwoViewSubspace, datasets

STRENGTHS = np.logspace(-2, 4, 13)
PLS_SIZES = (1, 2, 3, 5, 8, 12, 16)
ROWS = 300 if QUICK else 1000
SEEDS = range(1 if QUICK else 3)
SIZES_OF_ERRORS = (1e1, 1e2, 1e4, 1e6)
DIGITS = 200 if QUICK else 600
WIDTHS = (30, 20, 15)
N_PRIVATE = 2


def pair(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two views of 50 columns: few shared codes, many directions, or no linear relation."""
    rng = np.random.default_rng(seed)
    n = ROWS + 500
    if kind == "rank 5":
        codes = rng.normal(size=(n, 5))
        first = codes @ rng.normal(size=(5, 50)) + rng.normal(size=(n, 50))
        return first, codes @ rng.normal(size=(5, 50)) + 2 * rng.normal(size=(n, 50))
    first = rng.normal(size=(n, 50)) @ rng.normal(size=(50, 50)) * np.geomspace(1, 0.05, 50)
    if kind == "full rank":
        return first, first @ rng.normal(size=(50, 50)) / 10 + rng.normal(size=(n, 50))
    codes = first[:, :3] / first[:, :3].std(axis=0)
    bent = np.hstack([np.sin(2 * codes), codes**2])
    return first, bent @ rng.normal(size=(6, 50)) + rng.normal(size=(n, 50))


def ridge(X: np.ndarray, Y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Ridge regression on standardized columns, its strength by leave-one-out."""
    scaler = StandardScaler().fit(X)
    return RidgeCV(STRENGTHS).fit(scaler.transform(X), Y).predict(scaler.transform(new))


def pls(X: np.ndarray, Y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Partial least squares, the number of components by four folds."""
    errors = []
    for size in PLS_SIZES:
        error = 0.0
        for fitted, out in KFold(4, shuffle=True, random_state=0).split(X):
            model = PLSRegression(size).fit(X[fitted], Y[fitted])
            error += float(np.square(model.predict(X[out]) - Y[out]).sum())
        errors.append(error)
    return PLSRegression(PLS_SIZES[int(np.argmin(errors))]).fit(X, Y).predict(new)


def ours(X: np.ndarray, Y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predict with the defaults, the fit of the subspace included."""
    return TwoViewSubspace().fit(X, Y).predict_view(X1=new)


def prediction(kind: str) -> list[str]:
    """Return error / variance on 500 new rows and CPU seconds of each method."""
    methods: dict[str, Callable[..., np.ndarray]] = {"ours": ours, "ridge": ridge, "PLS": pls}
    errors: dict[str, list[float]] = {name: [] for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for seed in SEEDS:
        X, Y = pair(kind, seed)
        for name, method in methods.items():
            spent, found = cpu(partial(method, X[:ROWS], Y[:ROWS], X[ROWS:]))
            errors[name].append(float(np.mean((found - Y[ROWS:]) ** 2) / Y[ROWS:].var()))
            seconds[name].append(spent)
    cells = [f"{np.mean(errors[name]):.3f}" for name in methods]
    return [kind, *cells, *(f"{np.mean(seconds[name]):.2f}" for name in methods)]


def pursuit(X: np.ndarray) -> np.ndarray:
    """Return the low-rank part by principal component pursuit, of pyrpca at its defaults."""
    return np.asarray(rpca_pcp_ialm(X, 1 / np.sqrt(max(X.shape)), verbose=False)[0])


def denoising(size: float) -> list[str]:
    """Return the relative error of a table of rank 5 with a tenth of its cells wrong, and CPU seconds."""
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 80)) + rng.normal(size=(300, 80))
    wrong = rng.random(clean.shape) < 0.1
    X = clean + wrong * size * rng.choice([-1, 1], clean.shape)

    def kept() -> np.ndarray:
        model = TwoViewSubspace().fit(X[:, :40], X[:, 40:])
        return np.hstack(model.denoise(X[:, :40], X[:, 40:]))

    seconds, found = cpu(kept)
    peer_seconds, peer = cpu(partial(pursuit, X))
    cells = [np.linalg.norm(Z - clean) / np.linalg.norm(clean) for Z in (found, peer)]
    return [
        f"{size:g}",
        *(f"{cell:.3f}" for cell in cells),
        f"{seconds:.2f}",
        f"{peer_seconds:.2f}",
    ]


def mofa(views: list[np.ndarray], n_factors: int) -> np.ndarray:
    """Return the factors of MOFA (Argelaguet et al. 2018) at its defaults."""
    from mofapy2.run.entry_point import entry_point

    run = entry_point()
    run.set_data_options(scale_views=True)
    run.set_data_matrix([[view] for view in views], likelihoods=["gaussian"] * len(views))
    run.set_model_options(factors=n_factors)
    run.set_train_options(seed=0, verbose=False, quiet=True)
    run.build()
    run.run()
    return np.asarray(run.model.nodes["Z"].getExpectations()["E"])


def parts() -> list[list[str]]:
    """Return the largest angle between the found and the true shared codes, by method."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(300, 3))
    views = []
    private = []
    for d in WIDTHS:
        own = rng.normal(size=(300, N_PRIVATE))
        private.append(own)
        signal = shared @ rng.normal(size=(3, d)) + own @ rng.normal(size=(N_PRIVATE, d))
        views.append(signal + 0.5 * rng.normal(size=(300, d)))
    seconds, model = cpu(lambda: MultiViewSubspace().fit(views))
    angles = [
        np.degrees(subspace_angles(codes[:, :N_PRIVATE], own)).max()
        for codes, own in zip(model.private_codes_, private, strict=True)
    ]

    def angle(codes: np.ndarray) -> str:
        return f"{np.degrees(subspace_angles(codes[:, :3], shared)).max():.1f}"

    rows = [
        [
            "MultiViewSubspace",
            angle(model.codes_),
            f"{max(angles):.1f}",
            f"{seconds:.2f}",
            f"{model.relative_gap_:.0e}",
        ]
    ]
    scaled = StandardScaler().fit_transform(np.hstack(views))
    seconds, codes = cpu(lambda: PCA(3).fit_transform(scaled))
    rows.append(["PCA of all columns", angle(codes), "", f"{seconds:.2f}", ""])
    if installed("mofapy2"):
        seconds, codes = cpu(partial(mofa, views, 9))
        # the factors that explain the most of the view that they explain least of
        least = np.min([_r2(codes, view) for view in views], axis=0)
        best = np.argsort(-least)[:3]
        rows.append(["MOFA, 9 factors, best 3", angle(codes[:, best]), "", f"{seconds:.2f}", ""])
    return rows


def _r2(codes: np.ndarray, view: np.ndarray) -> np.ndarray:
    """Return the share of the variance of a view that each factor explains."""
    centered = view - view.mean(axis=0)
    Z = codes - codes.mean(axis=0)
    size = np.maximum(np.square(Z).sum(axis=0), 1e-12)
    return np.square(Z.T @ centered).sum(axis=1) / size / np.square(centered).sum()


def digits() -> tuple[list[list[str]], list[list[str]]]:
    """Return each of six views of digits from the other five, and the classes in shared codes."""
    data = datasets.load("mfeat")
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.views[0]))[: DIGITS + 400]
    train = rows[:DIGITS]
    new = rows[DIGITS:]
    views = [np.asarray(view, float) for view in data.views]
    seconds, model = cpu(lambda: MultiViewSubspace().fit([view[train] for view in views]))
    found = []
    for target, view in enumerate(views):
        deviation = view[train].std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        given: list[Any] = [None if v == target else one[new] for v, one in enumerate(views)]
        X = np.hstack([one for v, one in enumerate(views) if v != target])
        answers = (
            model.predict_view(given, target),
            ridge(X[train], view[train] / deviation, X[new]) * deviation,
        )
        errors = [np.mean(((answer - view[new]) / deviation) ** 2) for answer in answers]
        found.append([f"{target} ({view.shape[1]} columns)", *(f"{error:.3f}" for error in errors)])
    labels = np.asarray(data.target)[train]
    k = model.codes_.shape[1]
    scaled = StandardScaler().fit_transform(np.hstack(views)[train])
    codes = {
        f"shared codes ({k})": model.codes_,
        f"PCA of all columns ({k})": PCA(k).fit_transform(scaled),
        "all columns": scaled,
    }
    if installed("mofapy2"):
        factors = mofa([view[train] for view in views], 15)
        codes["MOFA (15 factors)"] = factors
    scores = []
    for name, Z in codes.items():
        groups = KMeans(10, n_init=10, random_state=0).fit_predict(Z)
        scores.append([name, f"{adjusted_rand_score(labels, groups):.3f}"])
    scores.append(["CPU seconds of the fit", f"{seconds:.1f}"])
    return found, scores


def main() -> str:
    """Run everything and return the tables."""
    ours(*pair("rank 5", 9), pair("rank 5", 9)[0])  # what is imported at the first call
    packages = ["scikit-learn", "pyrpca"]
    if installed("mofapy2"):
        packages.append("mofapy2")
    found, scores = digits()
    return "\n".join(
        [
            "# Several views, by default",
            "",
            f"{versions(*packages)}. CPU time on one thread, fits and predictions together; nothing is set.",
            "",
            f"## 50 columns from 50 others, {ROWS} rows",
            "",
            "Error / variance on 500 new rows, mean over draws. Ridge: strength by leave-one-out; PLS: components by "
            "four folds.",
            "",
            *table(
                "relation | ours | ridge | PLS | ours, s | ridge, s | PLS, s",
                [prediction(kind) for kind in ("rank 5", "full rank", "not linear")],
            ),
            "",
            "## A tenth of the cells wrong, by their size",
            "",
            "300 x 80, rank 5 and noise of deviation one; relative error of the data without gross errors. The peer is "
            "principal component pursuit (pyrpca).",
            "",
            *table(
                "size | ours | pursuit | ours, s | pursuit, s",
                [denoising(size) for size in SIZES_OF_ERRORS],
            ),
            "",
            "## Shared and private parts of three views",
            "",
            f"300 rows, {WIDTHS} columns, 3 shared and {N_PRIVATE} private codes for each view, all of the same size; "
            "largest angles to the truth, in degrees.",
            "",
            *table("method | shared | private | CPU, s | relative gap", parts()),
            "",
            f"## Six views of digits, {DIGITS} rows",
            "",
            "Each view of 400 new rows from the other five, error / variance; ridge on all columns of the five.",
            "",
            *table("view | ours | ridge", found),
            "",
            "Adjusted Rand index of ten clusters (k-means) with the digits:",
            "",
            *table("clusters of | index", scores),
        ]
    )
