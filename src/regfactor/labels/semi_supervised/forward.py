"""Forward members: classes predicted from rows, by labeled rows alone."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize
from sklearn.metrics.pairwise import euclidean_distances

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember

MAX_STEPS = 200
GRADIENT_TOL = 1e-3  # largest entry of the gradient of the mean loss
KERNEL_NOISE = 0.1
SMALLEST_LABEL_WEIGHT = 1e-12  # of a label in the kernel model; smaller ones have no effect


@frozen
class LinearEnergies(ClassModel):
    """Energies rows @ coefficients + intercepts."""

    coefficients: Array
    intercepts: Array

    def energies(self, rows: Array) -> Array:
        """Return an energy for each row and class."""
        found: Array = rows @ self.coefficients
        found += self.intercepts
        return found


class LogisticMember(ClassMember):
    """min over W of sum_i w_i log-loss_i(W) + |W|^2/2: multinomial logistic regression."""

    name = "logistic"
    assumes = "classes are separated by planes; unlabeled rows are not used"
    uses_unlabeled = False
    temperatures = (0.5, 1.0, 2.0, 4.0)
    usual_temperature = 1.5

    def fit(self) -> FittedMember:
        """Return the member fitted to all labels, and without each fold of them."""
        data = self.data
        labeled_rows = data.rows[data.labeled]
        # the penalized solution lies in the span of the labeled rows
        basis = None
        coordinates = labeled_rows
        if labeled_rows.shape[1] > labeled_rows.shape[0]:
            basis, triangle = scipy.linalg.qr(labeled_rows.T, mode="economic")
            coordinates = triangle.T
        fits = LogisticFits.of(coordinates, data).minimum()
        energies = coordinates @ fits[:, :-1] + fits[:, -1:]
        coefficients = fits[0, :-1]
        if basis is not None:
            coefficients = basis @ coefficients
        model = LinearEnergies(coefficients, fits[0, -1])
        return self._fitted(model, model.energies(data.rows), data.held_out(energies))


@frozen
class LogisticFits:
    """The losses of all fits, as one function of their coefficients; the last row is intercepts.

    Attributes
    ----------
    rows : array of shape (n_labeled, n_columns + 1)
        Labeled rows and a column of ones.
    shares : array of shape (n_labeled, n_classes)
    weights : array of shape (n_fits, n_labeled, 1)
        Weights of the labels, zero where a fit does not use them.
    ridge : float
    """

    rows: Array
    shares: Array
    weights: Array
    ridge: float

    @staticmethod
    def of(coordinates: Array, data: LabeledRows) -> LogisticFits:
        """Return the losses of the fits with all labels and without each fold."""
        rows = np.column_stack([coordinates, np.ones(len(coordinates))])
        weights = (data.in_use * data.label_weights)[:, :, None]
        # the ridge of a difference w of two vectors w/2 and -w/2 is |w|^2/2
        ridge = 2.0 if data.n_classes == 2 else 1.0
        return LogisticFits(rows, data.label_shares, weights, ridge)

    def loss_and_gradient(self, flat: Array) -> tuple[float, Array]:
        """Return the sum of the losses, and its gradient, at coefficients in one vector."""
        n_fits = len(self.weights)
        coefficients = flat.reshape(n_fits, self.rows.shape[1], -1)
        logs = self.rows @ coefficients
        logs -= logs.max(axis=2, keepdims=True)
        shares = np.exp(logs)
        sums = shares.sum(axis=2, keepdims=True)
        loss = float(np.sum(self.weights * (np.log(sums) - (self.shares * logs).sum(2)[..., None])))
        shares /= sums
        gradient = self.rows.T @ (self.weights * (shares - self.shares))
        penalized = coefficients[:, :-1]
        gradient[:, :-1] += self.ridge * penalized
        loss += 0.5 * self.ridge * float(np.vdot(penalized, penalized))
        return loss, gradient.ravel()

    def minimum(self) -> Array:
        """Return the coefficients of all fits, (n_fits, n_columns + 1, n_classes)."""
        shape = (len(self.weights), self.rows.shape[1], self.shares.shape[1])
        found = scipy.optimize.minimize(
            self.loss_and_gradient,
            np.zeros(int(np.prod(shape))),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": MAX_STEPS, "gtol": GRADIENT_TOL * float(self.weights[0].sum())},
        )
        coefficients: Array = found.x.reshape(shape)
        return coefficients


@frozen
class KernelEnergies(ClassModel):
    """Energies sum_i exp(-|x - x_i|^2 / width) dual_i over the labeled rows x_i."""

    labeled_rows: Array
    dual: Array
    width: float

    def energies(self, rows: Array) -> Array:
        """Return an energy for each row and class."""
        found: Array = gaussian_gram(rows, self.labeled_rows, self.width) @ self.dual
        return found


class KernelMember(ClassMember):
    """min over f of sum_i w_i |f(x_i) - y_i|^2 / noise + |f|^2 in a Gaussian kernel's space."""

    name = "kernel"
    assumes = "near labels agree; unlabeled rows are not used"
    uses_unlabeled = False
    temperatures = (2.0, 4.0, 8.0, 16.0)
    usual_temperature = 6.0

    def fit(self) -> FittedMember:
        """Return the member fitted to all labels; without a fold in closed form."""
        data = self.data
        width = float(np.mean(np.square(data.rows).sum(axis=1)))
        labeled_rows = data.rows[data.labeled]
        gram = gaussian_gram(labeled_rows, labeled_rows, width)
        weights = np.maximum(data.label_weights, SMALLEST_LABEL_WEIGHT)
        gram[np.diag_indices_from(gram)] += KERNEL_NOISE / weights
        inverse = scipy.linalg.inv(gram)
        targets = data.label_shares - 1.0 / data.n_classes
        dual = inverse @ targets
        held_out = np.zeros_like(targets)
        for fold in range(data.folds.max() + 1):
            out = data.folds == fold
            block = inverse[np.ix_(out, out)]
            held_out[out] = targets[out] - scipy.linalg.solve(block, dual[out], assume_a="pos")
        model = KernelEnergies(labeled_rows, dual, width)
        return self._fitted(model, model.energies(data.rows), held_out)


def gaussian_gram(rows: Array, others: Array, width: float) -> Array:
    """Return exp(-|x - z|^2 / width) for each pair."""
    gram: Array = euclidean_distances(rows, others, squared=True)
    gram /= -width
    np.exp(gram, out=gram)
    return gram
