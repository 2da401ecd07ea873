"""Recovery of two-view factors by boosting: White's thesis, algorithms 2 to 5 with their errata corrected.

An independent oracle for the closed form of the library: it shares no line with it and needs many more atoms. Rows
are samples, so Z here is the transpose of the thesis' matrix. The weight eta must lie inside (0, 1): only there must
both parts of an atom have full length.
"""

import numpy as np
from scipy.optimize import brentq, nnls


def two_view_value(Z, n_first, bounds):
    """max over eta of ||Z E^-1||_tr and its maximizer: a root in the angle whose squared cosine is eta."""
    first, second = Z[:, :n_first] / bounds[0], Z[:, n_first:] / bounds[1]

    def value_and_slope(angle):
        both = np.hstack([np.cos(angle) * first, np.sin(angle) * second])
        U, S, Vt = np.linalg.svd(both, full_matrices=False)
        polar = U @ Vt
        turned = np.hstack([-np.sin(angle) * first, np.cos(angle) * second])
        return S.sum(), (polar * turned).sum()

    ends = (1e-9, np.pi / 2 - 1e-9)
    if value_and_slope(ends[0])[1] <= 0 or value_and_slope(ends[1])[1] >= 0:
        angle = max((0.0, np.pi / 2), key=lambda a: value_and_slope(a)[0])
    else:
        angle = brentq(lambda a: value_and_slope(a)[1], *ends, xtol=1e-15)
    return value_and_slope(angle)[0], np.cos(angle) ** 2


def subgradient(Z, n_first, bounds, eta):
    """Gamma: the transposed thesis matrix E^-1 U V', d x n, with <Gamma', Z> = |||Z||| and dual norm 1."""
    weights = np.repeat(
        [np.sqrt(eta) / bounds[0], np.sqrt(1 - eta) / bounds[1]], [n_first, Z.shape[1] - n_first]
    )
    U, S, Vt = np.linalg.svd(weights[:, None] * Z.T, full_matrices=False)
    rank = int((S > 1e-10 * S[0]).sum())
    return weights[:, None] * (U[:, :rank] @ Vt[:rank]), weights, U[:, :rank]


def balanced_direction(space, form):
    """A unit vector of the column span of space on which the quadratic form vanishes: opposite signs are mixed."""
    values, vectors = np.linalg.eigh(space.T @ form @ space)
    low, high = min(values[0], 0.0), max(values[-1], 0.0)
    if high - low < 1e-12:
        return space[:, 0]
    return (
        space
        @ (np.sqrt(high) * vectors[:, 0] + np.sqrt(-low) * vectors[:, -1])
        / np.sqrt(high - low)
    )


def steepest_multiplier(T, form):
    """argmin over tau of the convex lambda_max(T - tau form): bisection on the sign of a subgradient."""

    def slope(tau):
        leading = np.linalg.eigh(T - tau * form)[1][:, -1]
        return -leading @ form @ leading

    low, high = -1.0, 1.0
    while slope(low) > 0 and low > -1e12:
        low *= 2
    while slope(high) < 0 and high < 1e12:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (low + high) / 2


def oracle(residual, Gamma, basis, form, bounds):
    """Algorithm 3: the atom c along which the loss falls most; the leading eigenspace replaces algorithm 4."""
    Q = 2 * residual @ Gamma.T
    T = basis.T @ (Q + Q.T) @ basis / 2
    tau = steepest_multiplier(T, form)
    values, vectors = np.linalg.eigh(T - tau * form)
    leading = vectors[:, values >= values[-1] - 1e-6 * max(np.abs(values).max(), 1e-300)]
    c = basis @ balanced_direction(leading, form)
    return c * np.sqrt((bounds[0] ** 2 + bounds[1] ** 2) / (c @ c))


def boost(Z, n_first, bounds=(1.0, 1.0), tolerance=1e-9, most=400):
    """Algorithms 2 and 5: factors (Phi, C) of Z, columns of Phi paying |||Z||| in all, rows of C in both balls."""
    size, eta = two_view_value(Z, n_first, bounds)
    Gamma, weights, left = subgradient(Z, n_first, bounds, eta)
    target = Z.T / size
    basis, _ = np.linalg.qr(
        left / weights[:, None]
    )  # the null space of l1 I1 + l2 I2 - Gamma Gamma', known exactly
    first, second = basis[:n_first], basis[n_first:]
    form = bounds[1] ** 2 * first.T @ first - bounds[0] ** 2 * second.T @ second
    atoms, M = [], np.zeros((Z.shape[1], Z.shape[1]))
    for _ in range(most):
        residual = target - M @ Gamma
        if np.linalg.norm(residual) <= tolerance * np.linalg.norm(target):
            break
        atoms.append(oracle(residual, Gamma, basis, form, bounds))
        columns = np.column_stack([np.outer(c, Gamma.T @ c).ravel() for c in atoms])
        mu, _ = nnls(columns, target.ravel(), maxiter=50 * columns.shape[1])
        kept = mu > 0
        atoms, mu = [c for c, keep in zip(atoms, kept, strict=True) if keep], mu[kept]
        M = sum(m * np.outer(c, c) for m, c in zip(mu, atoms, strict=True))
    C = np.array(atoms)
    return size * mu * (Gamma.T @ C.T), C
