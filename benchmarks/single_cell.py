"""Sparse counts as of single cells: Poisson and negative-binomial PCA, CPU and memory next to glmpca."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import gammaln, xlogy

from benchmarks._peers import MB, QUICK, cpu, grown, in_fresh_process, table, versions
from regfactor import ExponentialFamilyPCA
from regfactor.losses import NegativeBinomial

RANK = 20
N_TYPES, N_PROGRAMS, THETA = 10, 8, 2.0
LOG_RATE = -3.9  # so that 6 to 7 % of the counts are positive
BLOCK = 1000  # rows drawn or compared at once
COMPARED = [(1000, 300)] if QUICK else [(2000, 500), (4000, 1000)]
LARGEST = (4000, 1000) if QUICK else (20_000, 2000)
PENALTIES = (1, 10, 100)  # of glmpca: the next one where it diverges, as its message advises
PEER = {"poisson": "poi", "negative_binomial": "nb"}


def cells(shape: tuple[int, int], seed: int = 0) -> Any:
    """Draw counts: types of cells, programs of genes, depths of cells, and overdispersion."""
    rng = np.random.default_rng(seed)
    n, d = shape
    types = rng.integers(N_TYPES, size=n)
    markers = 1.2 * rng.normal(size=(N_TYPES, d)) * (rng.random((N_TYPES, d)) < 0.2)
    programs = 0.25 * rng.normal(size=(N_PROGRAMS, d))
    activity = rng.normal(size=(n, N_PROGRAMS))
    genes = 1.5 * rng.normal(size=d)
    depth = 0.5 * rng.normal(size=n)
    blocks = []
    for start in range(0, n, BLOCK):
        at = slice(start, start + BLOCK)
        z = markers[types[at]] + activity[at] @ programs + genes + depth[at, None] + LOG_RATE
        rate = np.exp(z) * rng.gamma(THETA, 1 / THETA, size=z.shape)
        blocks.append(scipy.sparse.csr_array(rng.poisson(rate).astype(float)))
    X = scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
    return X[:, np.asarray(X.sum(axis=0)) > 0]


@dataclass(frozen=True)
class Fit:
    """z = codes components + intercept + exposure of a fit, its dispersion, and what it cost."""

    codes: np.ndarray
    components: np.ndarray
    intercept: np.ndarray
    exposure: np.ndarray
    theta: float
    seconds: float
    memory: float  # MB by which the process grew
    iterations: int

    def deviance(self, X: Any) -> float:
        """Return twice the log likelihood by which the fit is below that of means x of Poisson counts.

        So that fits of different dispersions are compared by their likelihoods.
        """
        total = 0.0
        for start in range(0, X.shape[0], BLOCK):
            at = slice(start, start + BLOCK)
            x = X[at].toarray()
            z = self.codes[at] @ self.components + self.intercept + self.exposure[at, None]
            total += float((xlogy(x, x) - x - gammaln(x + 1) - self._log_likelihood(z, x)).sum())
        return 2 * total

    def _log_likelihood(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        if np.isinf(self.theta):
            return np.asarray(x * z - np.exp(z) - gammaln(x + 1))
        theta = self.theta
        base = gammaln(x + theta) - gammaln(theta) - gammaln(x + 1) + theta * np.log(theta)
        return np.asarray(base - NegativeBinomial(theta).value(z, x))


def ours(shape: tuple[int, int], family: str, dtype: str) -> Fit:
    """Fit the sparse table."""
    X = cells(shape).astype(dtype)
    model = ExponentialFamilyPCA(RANK, family, row_offset="total", random_state=0)
    model.fit(cells((200, 60)).astype(dtype))  # imports and caches
    memory, (seconds, _) = grown(lambda: cpu(lambda: model.fit(X)))
    return Fit(
        model.codes_,
        model.components_,
        model.intercept_,
        model.row_offset_,
        getattr(model, "theta_", np.inf),
        seconds,
        memory,
        model.n_iter_,
    )


def theirs(shape: tuple[int, int], family: str, penalty: int) -> Fit | None:
    """Fit glmpca with its defaults to the dense table that it needs; None where it diverges."""
    from glmpca.glmpca import GlmpcaError, glmpca

    Y = np.ascontiguousarray(cells(shape).toarray().T)
    np.random.seed(0)  # noqa: NPY002  the peer draws its start from the global generator
    try:
        memory, (seconds, fit) = grown(
            lambda: cpu(lambda: glmpca(Y, RANK, fam=PEER[family], penalty=penalty))
        )
    except GlmpcaError:
        return None
    theta = np.inf
    if family == "negative_binomial":
        theta = float(fit["glmpca_family"].nb_theta)
    return Fit(
        np.asarray(fit["factors"]),
        np.asarray(fit["loadings"]).T,
        np.asarray(fit["coefX"])[:, 0],
        np.log(Y.mean(axis=0)),
        theta,
        seconds,
        memory + Y.nbytes / MB,
        len(fit["dev"]),
    )


def size(X: Any) -> float:
    """Return the MB of a sparse table."""
    return (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / MB


def row(name: str, family: str, shape: tuple[int, int], fit: Fit, peer: Fit | None) -> list[str]:
    """Return the line of a fit."""
    X = cells(shape)
    to_peer = ""
    if peer is not None:
        to_peer = f"1/{peer.seconds / fit.seconds:.1f}"
    return [
        family,
        f"{shape[0]:,} x {shape[1]:,}",
        name,
        str(fit.iterations),
        f"{fit.seconds:.1f}",
        to_peer,
        f"{fit.deviance(X):,.0f}",
        "" if np.isinf(fit.theta) else f"{fit.theta:.2f}",
        f"{fit.memory:.0f}",
        f"{fit.memory / size(X):.1f}",
    ]


def main() -> str:
    """Run all fits, each in a process of its own, and return the table."""
    rows = []
    for family in PEER:
        for shape in COMPARED:
            peer = None
            for penalty in PENALTIES:
                peer = in_fresh_process(theirs, shape, family, penalty)
                name = f"glmpca, penalty {penalty}"
                if peer is not None:
                    rows.append(row(name, family, shape, peer, peer))
                    break
                size_of = f"{shape[0]:,} x {shape[1]:,}"
                rows.append([family, size_of, f"{name}: diverged", *[""] * 7])
            fit = in_fresh_process(ours, shape, family, "float64")
            rows.append(row("ours, alpha=1", family, shape, fit, peer))
        for dtype in ("float64", "float32"):
            fit = in_fresh_process(ours, LARGEST, family, dtype)
            rows.append(row(f"ours, alpha=1, {dtype}", family, LARGEST, fit, None))
    density = cells(LARGEST).nnz / np.prod(LARGEST)
    lines = [
        "# Sparse counts of single cells",
        "",
        f"Drawn counts of {N_TYPES} types of cells with depths, programs of genes and dispersion "
        f"{THETA:g}; {density:.1%} of the largest table are positive, all zeros are observed. "
        f"{RANK} components, exposures by totals. CPU of whole fits on one thread; memory is the "
        "growth of a fresh process during the fit (of glmpca with the dense table it is given), in "
        "MB and as a multiple of the sparse table in float64. Deviance is twice the log likelihood "
        "below that of a Poisson model with the counts as means.",
        f"{versions('scikit-learn', 'glmpca')}.",
        "",
        *table(
            "family | table | fit | iterations | CPU s | to glmpca | deviance | theta | MB | "
            "x table",
            rows,
        ),
    ]
    return "\n".join(lines) + "\n"
