"""Rows of which some are labeled, and the folds in which labels are held out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen
from regfactor.fitting.calibration import NEVER_HELD_OUT, label_folds

SMALLEST_EIGENVALUE = 1e-8  # relative to the largest


@frozen
class Spectrum:
    """Principal directions of rows, the widest first, and the variances along them."""

    vectors: Array  # (n_columns, n_directions)
    variances: Array

    @staticmethod
    def of(rows: Array) -> Spectrum:
        """Return the directions along which rows vary."""
        n_rows, n_columns = rows.shape
        if n_columns <= n_rows:
            values, vectors = scipy.linalg.eigh(rows.T @ rows / n_rows, driver="evd")
        else:
            values, left = scipy.linalg.eigh(rows @ rows.T / n_rows, driver="evd")
            vectors = rows.T @ left / np.sqrt(n_rows * np.maximum(values, 1e-300))
        values = values[::-1]
        kept = values > SMALLEST_EIGENVALUE * values[0]
        return Spectrum(vectors[:, ::-1][:, kept], values[kept])


@frozen
class LabeledRows:
    """What every member of a pool is fitted to.

    Attributes
    ----------
    rows : array of shape (n_samples, n_columns)
        In coordinates of unit variance.
    shares : array of shape (n_samples, n_classes)
        Share of each class in the label of a row, a unit vector for a plain label; zeros in rows
        without a label.
    weights : array of shape (n_samples,)
        Repetition counts.
    unlabeled_repetitions : float
        How many unlabeled rows each unlabeled one stands in for, where they are a sample.
    n_folds : int
        Largest number of folds.
    """

    rows: Array
    shares: Array
    weights: Array
    unlabeled_repetitions: float
    n_folds: int

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.shares.shape[1])

    @cached_property
    def labeled(self) -> Array:
        """Positions of the labeled rows."""
        return np.flatnonzero(self.shares.any(axis=1))

    @cached_property
    def unlabeled(self) -> Array:
        """Positions of the rows without a label."""
        return np.flatnonzero(~self.shares.any(axis=1))

    @cached_property
    def label_shares(self) -> Array:
        """Shares of the classes in the labels, a row for each labeled row."""
        found: Array = self.shares[self.labeled]
        return found

    @cached_property
    def label_weights(self) -> Array:
        """Weights of the labeled rows."""
        found: Array = self.weights[self.labeled]
        return found

    @cached_property
    def class_counts(self) -> Array:
        """Number of labels of each class, by weight."""
        return self.label_weights @ self.label_shares

    @cached_property
    def spectrum(self) -> Spectrum:
        """The principal directions of all rows."""
        return Spectrum.of(self.rows)

    @cached_property
    def folds(self) -> Array:
        """Fold of each labeled row, as `label_folds` gives it."""
        return label_folds(self.label_shares, self.n_folds)

    @cached_property
    def in_use(self) -> Array:
        """Which labels each fit uses: first all of them, then all but those of each fold."""
        folds = np.arange(self.folds.max() + 1)[:, None]
        all_labels = np.ones((1, len(self.folds)), bool)
        return np.concatenate([all_labels, self.folds != folds])

    def held_out(self, energies: Array) -> Array:
        """Return the energies of labeled rows by the fit that did not use their label.

        `energies` are those of the labeled rows, of shape (n_fits, n_labeled, n_classes). Labels
        that are in every fit get equal energies.
        """
        fits = self.folds + 1
        found = energies[fits, np.arange(len(fits))]
        found[self.folds == NEVER_HELD_OUT] = 0.0
        return found
