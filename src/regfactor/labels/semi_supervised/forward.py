"""Forward members: classes predicted from rows, by labeled rows alone."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember

MAX_STEPS = 200
STEP_TOL = 1e-3
KERNEL_NOISE = 0.1


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
        models = [logistic_model(coordinates, data, in_use) for in_use in data.in_use]
        energies = np.array([model.energies(coordinates) for model in models])
        model = models[0]
        if basis is not None:
            model = LinearEnergies(basis @ model.coefficients, model.intercepts)
        return self._fitted(model, model.energies(data.rows), data.held_out(energies))


def logistic_model(coordinates: Array, data: LabeledRows, in_use: Array) -> LinearEnergies:
    """Return logistic regression on the labels in use, a row for each class of a label."""
    rows, codes = np.nonzero(data.label_shares * in_use[:, None])
    weights = data.label_shares[rows, codes] * data.label_weights[rows]
    machine = LogisticRegression(max_iter=MAX_STEPS, tol=STEP_TOL)
    machine.fit(coordinates[rows], codes, sample_weight=weights)
    coefficients = machine.coef_.T
    intercepts = machine.intercept_
    if data.n_classes == 2:
        coefficients = np.column_stack([np.zeros(len(coefficients)), coefficients])
        intercepts = np.append(0.0, intercepts)
    return LinearEnergies(coefficients, intercepts)


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
    relative_width: ClassVar[float] = 1.0

    def fit(self) -> FittedMember:
        """Return the member fitted to all labels; without a fold in closed form."""
        data = self.data
        width = self.relative_width * float(np.mean(np.square(data.rows).sum(axis=1)))
        labeled_rows = data.rows[data.labeled]
        gram = gaussian_gram(labeled_rows, labeled_rows, width)
        gram[np.diag_indices_from(gram)] += KERNEL_NOISE / data.label_weights
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
