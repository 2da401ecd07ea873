"""Completion of arrays of three modes: TensorSubspace next to CP and Tucker decompositions of tensorly."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import tensorly
from sklearn.datasets import load_digits, load_sample_images
from tensorly.decomposition import parafac, tucker

from regfactor import TensorSubspace
from regfactor.losses import Huber

MISSING, SEEDS, HELD_OUT = 0.3, 3, 0.1
RANKS = (1, 2, 3, 5, 8)
ITERATIONS, TOL = 200, 1e-6


def generated(kind: str, rng: np.random.Generator) -> np.ndarray:
    """An array of 40 x 20 x 15: of CP rank 3, of Tucker rank 3, or with 5 % of gross errors."""
    shape = (40, 20, 15)
    if kind == "Tucker":
        Z = rng.normal(size=(3, 3, 3))
        for mode, size in enumerate(shape):
            Z = np.moveaxis(np.tensordot(rng.normal(size=(size, 3)), Z, axes=(1, mode)), 0, mode)
    else:
        Z = np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, 3)) for size in shape))
    return Z + 0.3 * Z.std() * rng.normal(size=shape)


def real(kind: str) -> np.ndarray:
    """Images of digits (200 x 8 x 8), or a photograph (80 x 60 x 3, a small part)."""
    if kind == "digits":
        return load_digits().images[:200].astype(float)
    image = load_sample_images().images[0].astype(float)
    return image[::5, ::10][:80, :60]


def sets(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "generated, CP rank 3": generated("CP", rng),
        "generated, Tucker rank 3": generated("Tucker", rng),
        "generated, CP rank 3, 5 % gross errors": generated("CP", rng),
        "digits 200 x 8 x 8": real("digits"),
        "photograph 80 x 60 x 3": real("photograph"),
    }


def by_tensorly(
    decompose: Callable[..., object], restore: Callable[[object], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """The decomposition with a mask, its rank by a tenth of the observed entries."""

    def complete(X: np.ndarray) -> np.ndarray:
        observed = ~np.isnan(X)
        mean = X[observed].mean()
        filled = np.where(observed, X - mean, 0.0)
        rng = np.random.default_rng(0)
        held = observed & (rng.random(X.shape) < HELD_OUT)
        errors = []
        for rank in RANKS:
            Z = restore(decompose(filled, rank, observed & ~held))
            errors.append(np.square(Z - filled)[held].mean())
        best = RANKS[int(np.argmin(errors))]
        return restore(decompose(filled, best, observed)) + mean

    return complete


def cp(X: np.ndarray, rank: int, mask: np.ndarray) -> object:
    return parafac(
        X * mask, rank, n_iter_max=ITERATIONS, tol=TOL, mask=mask, init="svd", random_state=0
    )


def tucker_of(X: np.ndarray, rank: int, mask: np.ndarray) -> object:
    ranks = [min(rank, size) for size in X.shape]
    return tucker(
        X * mask, ranks, n_iter_max=ITERATIONS, tol=TOL, mask=mask, init="svd", random_state=0
    )


def ours(X: np.ndarray) -> np.ndarray:
    return TensorSubspace(random_state=0).fit(X).complete(X)


def robust(X: np.ndarray) -> np.ndarray:
    """Under the Huber loss, linear from half a robust deviation on."""
    center = np.nanmedian(X)
    deviation = np.nanmedian(np.abs(X - center)) / 0.6745
    return TensorSubspace(loss=Huber(0.5 * deviation), random_state=0).fit(X).complete(X)


METHODS = {
    "TensorSubspace": ours,
    "TensorSubspace, Huber": robust,
    "tensorly CP": by_tensorly(cp, tensorly.cp_to_tensor),
    "tensorly Tucker": by_tensorly(tucker_of, tensorly.tucker_to_tensor),
}


def main() -> str:
    """Fill hidden entries by all methods and return the table."""
    warnings.simplefilter("ignore")
    errors: dict[tuple[str, str], list[float]] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    for seed in range(SEEDS):
        for name, X in sets(seed).items():
            rng = np.random.default_rng(100 + seed)
            hidden = rng.random(X.shape) < MISSING
            seen = X.copy()
            if "gross" in name:
                wrong = rng.random(X.shape) < 0.05
                seen = np.where(wrong, X + 10 * X.std() * rng.choice([-1, 1], X.shape), X)
            seen = np.where(hidden, np.nan, seen)
            scale = X[hidden].std()
            for method, complete in METHODS.items():
                started = time.process_time()
                if "Huber" in method and "gross" not in name:
                    continue
                Z = complete(seen)
                seconds.setdefault((name, method), []).append(time.process_time() - started)
                error = np.sqrt(np.square(Z - X)[hidden].mean()) / scale
                errors.setdefault((name, method), []).append(error)
    lines = [
        "# Completion of arrays: TensorSubspace and tensorly",
        "",
        f"{100 * MISSING:.0f} % of the entries hidden, {SEEDS} draws; root mean squared error of the hidden "
        "entries over their deviation, and CPU seconds of the whole choice and fit, in the mean. "
        "TensorSubspace chooses alpha by held-out entries (ten strengths; Huber with delta of half a robust "
        "deviation); tensorly's decompositions with a "
        f"mask choose their rank among {', '.join(map(str, RANKS))} by the same share of entries, at most "
        f"{ITERATIONS} iterations, tol {TOL:g}. tensorly {tensorly.__version__}.",
        "",
        f"| array | {' | '.join(METHODS)} |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    for name in sets(0):
        cells = []
        for method in METHODS:
            if (name, method) not in errors:
                cells.append("-")
                continue
            error = np.mean(errors[name, method])
            cells.append(f"{error:.3f} ({np.mean(seconds[name, method]):.1f} s)")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
