"""Classification from what is expected of unlabeled rows, with labels or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Solution, run
from regfactor.core.params import Array
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.clustering import publish_run, weights_of
from regfactor.fitting.factor_estimator import _print_progress
from regfactor.fitting.inputs import validated
from regfactor.fitting.labels import Labels
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import Precomputed, as_kernel, is_pairwise, takes_sparse
from regfactor.labels.expectation.annealing import Annealing, Expected
from regfactor.labels.expectation.balance import matching_offsets
from regfactor.labels.expectation.inputs import (
    balance_of_labels,
    check_symmetry,
    known_labels,
    label_shares,
    weights_of_losses,
)
from regfactor.labels.expectation.kernel_features import Scale, features_of
from regfactor.labels.expectation.problem import Expectation, Margin
from regfactor.labels.expectation.statements import (
    Stated,
    as_constraints,
    check_labels,
    stated,
    warn_of_misses,
)
from regfactor.losses import as_loss

NEVER = (
    -1.0
)  # relative change of the objective that ends a run: annealing knows itself when it is done


class ExpectationSVC(Uncertified, ClassifierMixin, BaseEstimator):
    r"""min over f, p of |f|^2/2 + C sum_L L(y f) + C' sum_U E_p L(y f) - T sum_U H(p), expectations as stated, T -> 0.

    A support vector machine that learns from statements about the rows U without a label, such as
    shares of classes in all of them, in those with a word, or in a region, besides the rows L with
    a label, of which there may be none (Bellare 2009). p is the distribution of the labels of U, H
    its entropy. T falls from above the temperature at which f begins to part the rows
    (deterministic annealing, Sindhwani, Keerthi & Chapelle 2006); the fit is local. A statement
    that is missed by delta outside its tolerance costs penalty C' n delta^2 / 2, n the rows it is
    about, so that statements which contradict each other give a compromise, told in
    `constraint_report_`.

    f(x) = h(x) + b, b free, h in the space of the kernel, which is centered and divided by the mean
    of k(x, x) over the training rows: C and C' have no unit. While T falls, a ridge holds b back,
    so that rows part before all lean to one side; at the end b is free. More than two classes have
    an f each, against the rest.

    Parameters
    ----------
    constraints : Constraint or list of Constraint, default=()
        Made by `regfactor.constraints`. With none, the balance of classes is that of the labels,
        (n_c + 1)/(n + k) for each of k classes, with tolerance 0.1. A wrong share is the main risk:
        see `model_selection.constraint_sensitivity`.
    C : float, optional
        Weight of labeled rows; None is C_unlabeled, by which all rows count alike.
    C_unlabeled : float or "auto", default="auto"
        C', weight of unlabeled rows; "auto" is 0.05, and 0 leaves a support vector machine on the
        labeled rows.
    loss : str or Loss, default="squared_hinge"
        L(m): "squared_hinge" max(0, 1 - m)^2, "logistic" log(1 + e^-m), "squared" (1 - m)^2, or
        "hinge" max(0, 1 - m), which is smoothed between 0.9 and 1.
    kernel : str, callable or Kernel, default="linear"
        "linear", "rbf", "poly", "precomputed", a function of two tables, or a part of
        `regfactor.kernels`.
    gamma : float or str, default="neighbors"
        Of the kernel; "neighbors" is 1/(2 s), s the median squared distance to the tenth neighbor.
        "scale" and "median" are too wide to follow clusters.
    penalty : float, default=1e3
        How much a statement weighs beside the rows it is about.
    classes : array-like, optional
        All classes; otherwise those of the labels and of the constraints.
    match_balance : bool, default=False
        Whether offsets are moved after the fit, so that predictions for the unlabeled rows have the
        stated balance of classes (or that of the labels). Otherwise only p has it.
    unlabeled : optional
        The marker of unlabeled rows in y; by default -1, NaN and None, for strings None, NaN and
        "".
    annealing : bool, default=True
        False begins at the last temperature, and finds worse optima: for comparison.
    degree, coef0 : default=3, 1.0
        Of the kernel.
    landmarks : int, "auto" or None, default="auto"
        For kernels that are not linear: the number of random rows whose kernel columns stand for
        all (Nystrom). "auto" takes 1000 beyond 2000 rows, and else all, exactly, as None always
        does.
    max_iter : int, default=1000
        Most f-steps; some hundred are never needed.
    tol : float, default=1e-4
        Accuracy of the last f-step, relative to the norm of f.
    time_limit, verbose, callback : optional
        As in all estimators; the callback is given every `Iterate` and ends the run by returning
        something true.
    random_state : int, RandomState instance or None, default=None
        Chooses landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row, given ones kept.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        p; one for the class of a labeled row.
    constraint_report_ : ConstraintReport
        For every statement: target, tolerance, what came out in expectation and in prediction,
        violation; print it.
    constraints_ : tuple of Constraint
        Those given, or the balance that was taken from the labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        With a linear kernel; `dual_coef_` of the landmarks with others.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    objective_, status_, n_iter_, solver_
        The objective at the last temperature, and how the run went.
    history_ : list of Record
        One for every f-step; `info` has temperature and mean entropy.

    Examples
    --------
    >>> from regfactor import ExpectationSVC
    >>> from regfactor.constraints import region
    >>> X = [[0.0, 1.0], [0.2, 1.2], [0.1, 0.9], [3.0, 1.1], [3.2, 1.0], [2.9, 0.8]]
    >>> left = region(lambda X: X[:, 0] < 0.15, {"near": 1.0})
    >>> ExpectationSVC(left, classes=["near", "far"]).fit(X, [None] * 6).transduction_
    array(['near', 'near', 'near', 'far', 'far', 'far'], dtype='<U4')
    """

    _why = "labels are found by annealing, and the model"

    def __init__(
        self,
        constraints: Any = (),
        C: float | None = None,
        C_unlabeled: Any = "auto",
        loss: Any = "squared_hinge",
        kernel: Any = "linear",
        gamma: Any = "neighbors",
        penalty: float = 1e3,
        classes: Any = None,
        match_balance: bool = False,
        *,
        unlabeled: Any = None,
        annealing: bool = True,
        degree: int = 3,
        coef0: float = 1.0,
        landmarks: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.constraints = constraints
        self.C = C
        self.C_unlabeled = C_unlabeled
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.penalty = penalty
        self.classes = classes
        self.match_balance = match_balance
        self.unlabeled = unlabeled
        self.annealing = annealing
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some, or none, have a label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Absent entries of a sparse table are zeros.
        y : array-like of shape (n_samples,)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is not known.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            own = weights_of_losses(self)
            given = as_constraints(self.constraints)
            margin = Margin.of(as_loss(self.loss))
            table = self._table(X, reset=True)
            labels = known_labels(self, table, y, given)
            w = weights_of(table, sample_weight)
            weights = np.ones(table.shape[0]) if w is None else w
            counted = np.flatnonzero(weights > 0)
            free = counted[~labels.labeled[counted]]
            used = given or (balance_of_labels(labels, weights) if len(free) else ())
            check_labels(used, labels.classes)
            names = getattr(self, "feature_names_in_", None)
            seen = stated(
                used,
                X if hasattr(X, "shape") else table,
                names,
                labels.classes,
                free,
                weights[free],
            )
            shares = seen.balance(label_shares(labels, weights))
            R, scale, marks = self._features(table, counted, weights)
            strength = float(self.penalty) * own[1]
            task = Expectation(
                *scale.applied(R),
                labels.codes[counted],
                weights[counted],
                len(labels.classes),
                margin,
                *own,
                seen.statements(strength),
            )
            check_symmetry(task, labels, used)
            solution = self._run(task)
            self._marks = marks
            self._margin = margin
            coef, offset = scale.undone(*_coefficients(solution), R)
            self._coef = coef if marks is None else marks.back @ coef
            self._offset = offset
            self._publish(table, labels, seen, (free, shares), solution)
        return self

    def _run(self, task: Expectation) -> Solution[Any]:
        solver = Annealing(float(self.tol), bool(self.annealing))
        return run(
            solver.iterates(task),
            tol=NEVER,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=self.callback,
            progress=_print_progress if self.verbose else None,
        )

    def _features(self, table: Any, counted: Array, weights: Array) -> tuple[Any, Scale, Any]:
        """Return features of the rows that count, their scale, and the landmarks by which others get theirs."""
        kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        precomputed = isinstance(kernel, Precomputed)
        if precomputed and table.shape[0] != table.shape[1]:
            raise ValueError(
                f"A precomputed kernel needs the square matrix of the training rows, got shape {table.shape}.",
            )
        X = table if len(counted) == table.shape[0] else table[counted]
        if precomputed and len(counted) < table.shape[0]:
            X = X[:, counted]
        else:
            X = X
        R, marks = features_of(X, kernel.resolved(X), self.landmarks, self.random_state)
        if marks is not None and precomputed:
            marks = replace(marks, columns=counted[marks.columns])
        return R, Scale.of(R, weights[counted]), marks

    def _publish(
        self,
        table: Any,
        labels: Labels,
        seen: Stated,
        told: tuple[Array, Array],
        solution: Solution[Any],
    ) -> None:
        """Set the fitted attributes."""
        (free, shares) = told
        F = self._values(table)
        p = _probabilities(solution)
        if self.match_balance and len(free):
            moved = matching_offsets(F[free], seen.weights, shares)
            self._offset = self._offset + moved
            F = F + moved
        setattr(
            self,
            "coef_" if self._marks is None else "dual_coef_",
            self._coef.T.astype(table.dtype),
        )
        self.intercept_ = self._offset.astype(table.dtype)
        self.classes_ = labels.classes
        found = np.where(labels.labeled, labels.codes, _winners(F))
        P = np.where(labels.labeled[:, None], labels.one_hot(), self._posterior(F))
        P[free] = p
        self.transduction_ = labels.classes[found]
        self.label_distributions_ = P.astype(table.dtype)
        self.constraints_ = seen.constraints
        self.constraint_report_ = seen.report(p, _winners(F[free]))
        publish_run(self, solution, "Annealing")
        warn_of_misses(self.constraint_report_, seen.sizes())

    def _values(self, X: Any) -> Array:
        if self._marks is None:
            h = X @ self._coef
        else:
            h = self._marks.times(X, self._coef)
        return np.asarray(h + self._offset)

    def _posterior(self, F: Array) -> Array:
        gains = self._margin.advantage(F)
        if gains.shape[1] > 1:
            return np.asarray(softmax(gains, axis=1))
        p = expit(gains)
        return np.hstack([1 - p, p])

    def _scores(self, X: Any) -> tuple[Array, Any]:
        check_is_fitted(self)
        X = self._table(X, reset=False)
        return self._values(X), X.dtype

    def _table(self, X: Any, reset: bool) -> Any:
        return validated(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=reset,
        )

    def decision_function(self, X: Any) -> Array:
        """Return f.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With a precomputed kernel, that of every row with every training row.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        F, dtype = self._scores(X)
        return (F[:, 0] if F.shape[1] == 1 else F).astype(dtype)

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        F, _ = self._scores(X)
        return self.classes_[_winners(F)]

    def predict_proba(self, X: Any) -> Array:
        """Return exp(-L) of each class, scaled to sum to one: the p-step at T = C' without statements. Not calibrated.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        F, dtype = self._scores(X)
        return self._posterior(F).astype(dtype)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that sparse tables are taken, and what a precomputed kernel is."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags


def _winners(F: Array) -> Array:
    return np.asarray(F.argmax(axis=1) if F.shape[1] > 1 else (F[:, 0] > 0).astype(int))


def _coefficients(solution: Solution[Any]) -> tuple[Array, Array]:
    assert solution.point.coefficients is not None
    return solution.point.factors.C, solution.point.coefficients


def _probabilities(solution: Solution[Any]) -> Array:
    """Return p with a column for each class."""
    assert isinstance(solution.point, Expected) and solution.point.p is not None
    p = solution.point.p
    if p.shape[1] == 1:
        return np.hstack([1 - p, p])
    return p
