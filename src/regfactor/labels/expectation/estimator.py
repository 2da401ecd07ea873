"""Classification from expectations of the labels of unlabeled rows, with labels or without."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Choice, Estimator, Run
from regfactor.fitting.calibration import (
    NEVER_HELD_OUT,
    Temperature,
    both_classes,
    inverse_temperature,
    label_folds,
)
from regfactor.fitting.inputs import validated, weights_of_all_rows
from regfactor.fitting.labels import Labels, labels_of_rows, most_likely
from regfactor.fitting.parameters import (
    AUTO,
    COUNT,
    FINITE_NON_NEGATIVE,
    FINITE_POSITIVE,
    RUN_CONSTRAINTS,
    parametrized,
)
from regfactor.kernels import as_kernel, tag_kernel
from regfactor.labels.expectation.annealing import Annealing
from regfactor.labels.expectation.balance_offsets import matching_offsets
from regfactor.labels.expectation.inputs import (
    balance_of_labels,
    check_stated_classes,
    check_symmetry,
    known_labels,
    label_shares,
)
from regfactor.labels.expectation.kernel_features import KernelExpansion
from regfactor.labels.expectation.label_weight import select_label_weight
from regfactor.labels.expectation.problem import (
    Expectation,
    ExpectationPoint,
    MarginLoss,
    by_class,
    probabilities,
)
from regfactor.labels.expectation.statements import StatedConstraints, as_constraints, check_labels
from regfactor.losses import as_loss
from regfactor.solvers.base import solve_within

AUTO_C_UNLABELED = 0.05  # for a kernel whose diagonal has mean one
MIN_LABELS = 2  # with fewer none can be left out


@frozen
class ExpectationInputs:
    """Rows with labels, weights, features and what is stated of the unlabeled ones.

    `counted` are the rows of positive weight, `free` the unlabeled ones among them, `given` the
    rows as the user gave them.
    """

    given: Any
    table: Any
    labels: Labels
    weights: Array
    counted: Array
    free: Array
    stated: StatedConstraints
    features: KernelExpansion
    margin: MarginLoss


@frozen
class LabelFolds:
    """What fits without some labels are made of: an unfitted model, rows, labels and folds.

    `used` are the labeled rows of positive weight, `shares` and `folds` are theirs.
    """

    model: ExpectationSVC
    rows: Any
    labels: Array
    weights: Array
    used: Array
    shares: Array
    folds: Array


@parametrized
class ExpectationSVC(ClassifierMixin, Estimator):
    r"""min over f, p of |f|^2/2 + C sum_L L(y f) + C' sum_U E_p L(y f) - T sum_U H(p), T -> 0.

    A support vector machine that learns from statements about the rows U without a label, such as
    shares of classes in all of them, in those with a word, or in a region, in addition to the rows
    L with a label, of which there may be none. p is the distribution of the labels of U, H its
    entropy; expectations under p are as stated. T falls from above the temperature at which f
    begins to separate the rows (deterministic annealing); the fit is local. A statement that is
    missed by delta outside its tolerance costs penalty C' n delta^2 / 2, n the rows it is about, so
    that statements which contradict each other give a compromise, reported in
    `constraint_report_`.

    f(x) = h(x) + b, b free, h in the space of the kernel, which is centered and divided by the mean
    of k(x, x) over the training rows: C and C' have no unit. While T falls, a ridge on b ensures
    that rows separate before all lean to one side; at the end b is free. More than two classes have
    an f each, against the rest.

    Parameters
    ----------
    constraints : Constraint or list of Constraint, default=()
        Made by `regfactor.constraints`. With none, the balance of classes is that of the labels,
        (n_c + 1)/(n + k) for each of k classes, with tolerance 0.1. A wrong share is the main risk:
        see `model_selection.constraint_sensitivity`.
    C : float, "auto" or None, default="auto"
        Weight of labeled rows. None is C_unlabeled, by which all rows count alike. "auto" asks
        left-out labels, at the cost of two more fits for two classes: it is C_unlabeled where fits
        in which all rows count alike predict more of them, by over one standard error, than labels
        alone do; where they predict fewer, or classes are more than two, the one of 1, 3, 10 and 30
        under which a least squares machine of the labels predicts most, the largest of equals; and
        else 1. It is never below C_unlabeled, which it is with constraints of yours, or fewer than
        two labels.
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
        Weight of a statement relative to the rows it is about.
    classes : array-like, optional
        All classes; otherwise those of the labels and of the constraints. One without a label must
        be named by a constraint, or be the only one that none names.
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
        For kernels that are not linear: the number of random rows whose kernel columns approximate
        those of all (Nystrom). "auto" takes 1000 beyond 2000 rows, and else all, exactly, as None
        always does.
    max_iter : int, default=1000
        Turns of margins and label expectations; a few hundred are always enough.
    tol : float, default=1e-4
        Accuracy of the final f, relative to its norm.
    time_limit : float, optional
        Seconds for the whole fit.
    verbose : int, default=0
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.
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
        For every statement: target, tolerance, the values in expectation and in prediction, and
        the violation; print it.
    constraints_ : tuple of Constraint
        Those given, or the balance of the labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        With a linear kernel; `dual_coef_` of the landmarks with others.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    inverse_temperature_ : float
        By which `predict_proba` multiplies L; 1 without labels. It is found when it is first
        needed, or when the model is saved, by fits without a fifth of the labels each.
    objective_, status_, n_iter_, solver_
        The objective at the last temperature, and the outcome of the run.
    history_ : list of Record
        One for every turn; `info` has temperature and mean entropy.

    See Also
    --------
    ReverseClassifier : Learns from unlabeled rows without statements about them.
    regfactor.constraints : Makes statements.

    References
    ----------
    Bellare, Druck & McCallum, "Alternating projections for learning with expectation constraints",
    UAI 2009. Sindhwani, Keerthi & Chapelle, "Deterministic annealing for semi-supervised kernel
    machines", ICML 2006.

    Examples
    --------
    >>> from regfactor import ExpectationSVC
    >>> from regfactor.constraints import region
    >>> X = [[0.0, 1.0], [0.2, 1.2], [0.1, 0.9], [3.0, 1.1], [3.2, 1.0], [2.9, 0.8]]
    >>> left = region(lambda X: X[:, 0] < 0.15, {"near": 1.0})
    >>> ExpectationSVC(left, classes=["near", "far"]).fit(X, [None] * 6).transduction_
    array(['near', 'near', 'near', 'far', 'far', 'far'], dtype='<U4')
    """

    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "C": [FINITE_POSITIVE, AUTO, None],
        "C_unlabeled": [FINITE_NON_NEGATIVE, AUTO],
        "penalty": [FINITE_POSITIVE],
        "match_balance": ["boolean"],
        "annealing": ["boolean"],
        "landmarks": [COUNT, AUTO, None],
    }
    _no_certificate = "labels are found by annealing, and the model"

    constraints: Any = ()
    C: float | str | None = "auto"
    C_unlabeled: Any = "auto"
    loss: Any = "squared_hinge"
    kernel: Any = "linear"
    gamma: Any = "neighbors"
    penalty: float = 1e3
    classes: Any = None
    match_balance: bool = False
    _: KW_ONLY
    unlabeled: Any = None
    annealing: bool = True
    degree: int = 3
    coef0: float = 1.0
    landmarks: Any = "auto"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some, or none, have a label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Absent entries of a sparse table are zeros.
        y : array-like of shape (n_samples,)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is not known.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> ExpectationInputs:
        constraints = as_constraints(self.constraints)
        margin = MarginLoss.of(as_loss(self.loss))
        table = self._as_table(X, reset=True)
        y = labels_of_rows(y, table, self)
        labels = known_labels(y, self.unlabeled, self.classes, constraints)
        weights = weights_of_all_rows(table, sample_weight)
        counted = np.flatnonzero(weights > 0)
        free = counted[~labels.labeled[counted]]
        check_stated_classes(labels, counted, constraints)
        if not constraints and len(free):
            constraints = (balance_of_labels(labels, weights),)
        check_labels(constraints, labels.classes)
        given = X if hasattr(X, "shape") else table
        names = getattr(self, "feature_names_in_", None)
        stated = StatedConstraints.of(
            constraints,
            given,
            names,
            labels.classes,
            free,
            weights[free],
        )
        kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        features = KernelExpansion.of(
            table,
            counted,
            weights[counted],
            kernel,
            self.landmarks,
            self.random_state,
        )
        return ExpectationInputs(
            given,
            table,
            labels,
            weights,
            counted,
            free,
            stated,
            features,
            margin,
        )

    def _state(self, inputs: ExpectationInputs) -> Expectation:
        C_unlabeled = self.C_unlabeled
        if isinstance(C_unlabeled, str):
            C_unlabeled = AUTO_C_UNLABELED
        if self.C is None and C_unlabeled == 0:
            raise ValueError("C must be > 0 where C_unlabeled is 0; None takes C_unlabeled.")
        X, mean = inputs.features.scaled()
        classes = inputs.labels.classes
        C = C_unlabeled if self.C is None else self.C
        if is_option(C, "auto"):
            C = max(C_unlabeled, AUTO_C_UNLABELED)  # until labels choose
        problem = Expectation(
            X,
            mean,
            inputs.labels.codes[inputs.counted],
            inputs.weights[inputs.counted],
            len(classes),
            inputs.margin,
            float(C),
            float(C_unlabeled),
            inputs.stated.statements(float(self.penalty * C_unlabeled)),
        )
        check_symmetry(problem, classes, inputs.stated.constraints)
        return problem

    def _choose(
        self,
        problem: Expectation,
        inputs: ExpectationInputs,
        run: Run,
    ) -> Choice[Expectation]:
        """Return the problem with the C that labels choose, at least that of unlabeled rows.

        With statements of the user labels count as other rows do: a larger weight of theirs would
        let predictions contradict the statements.
        """
        if not is_option(self.C, "auto") or as_constraints(self.constraints):
            return Choice(problem)
        if np.count_nonzero(problem.codes >= 0) < MIN_LABELS:
            return Choice(problem)
        limits = replace(run.remaining(), callback=None, progress=None)
        C = select_label_weight(problem, self._annealing(), limits)
        return Choice(replace(problem, C=C))

    def _annealing(self) -> Annealing:
        return Annealing(float(self.tol), bool(self.annealing))

    def _solve(
        self,
        problem: Expectation,
        inputs: ExpectationInputs,
        run: Run,
    ) -> Solution[ExpectationPoint]:
        return solve_within(problem, run.remaining(), solver=self._annealing())

    def _publish(
        self,
        choice: Choice[Expectation],
        solution: Solution[ExpectationPoint],
        inputs: ExpectationInputs,
        run: Run,
    ) -> Solution[ExpectationPoint]:
        point = solution.point
        table = inputs.table
        labels = inputs.labels
        stated = inputs.stated
        free = inputs.free
        self._landmarks = inputs.features.landmarks
        self._margin = inputs.margin
        self._coef, self._offset = inputs.features.unscaled(point.coefficients, point.offsets)
        F = self._values(table)
        if self.match_balance and len(free):
            shares = stated.balance(label_shares(labels, inputs.weights))
            moved = matching_offsets(F[free], stated.weights, shares)
            self._offset = self._offset + moved
            F = F + moved
        coef = self._coef.T.astype(table.dtype)
        if self._landmarks is None:
            self.coef_ = coef
        else:
            self.dual_coef_ = coef
        self.intercept_ = self._offset.astype(table.dtype)
        self.classes_ = labels.classes
        winners = most_likely(F)
        self.transduction_ = labels.classes[np.where(labels.labeled, labels.codes, winners)]
        posterior = by_class(probabilities(self._margin.advantage(F)))
        P = np.where(labels.labeled[:, None], labels.one_hot(), posterior)
        P[free] = by_class(point.labels)
        self.label_distributions_ = P.astype(table.dtype)
        self.constraints_ = stated.constraints
        self.constraint_report_ = stated.report(by_class(point.labels), winners[free])
        stated.warn_of_violations(self.constraint_report_)
        self._temperature = self._lazy_temperature(inputs, choice.problem.C)
        return solution

    def _lazy_temperature(self, inputs: ExpectationInputs, C: float) -> Temperature:
        """Return the temperature of `predict_proba`, for which a copy of the table is kept."""
        labels = inputs.labels
        used = np.flatnonzero(labels.labeled & (inputs.weights > 0))
        if not len(used):
            return Temperature(1.0)
        shares = labels.one_hot()[used]
        folds = label_folds(shares)
        if (folds == NEVER_HELD_OUT).all():
            return Temperature(1.0)
        y = np.full(len(labels.codes), self.unlabeled, dtype=object)
        y[labels.labeled] = labels.classes[labels.codes[labels.labeled]].tolist()
        model = clone(self)
        model.set_params(C=C, classes=labels.classes.tolist(), callback=None, verbose=0)
        held_out = LabelFolds(
            model,
            deepcopy(inputs.given),
            y,
            inputs.weights,
            used,
            shares,
            folds,
        )
        return Temperature(partial(_calibration, held_out))

    @property
    def inverse_temperature_(self) -> float:
        """The factor of L(-f) - L(f) in `predict_proba`."""
        check_is_fitted(self)
        return self._temperature.value

    def _advantages(self, X: Any, rows: Array) -> Array:
        """Return L(-f) - L(f) of some rows."""
        table = self._as_table(X, reset=False)
        return self._margin.advantage(self._values(table[rows]))

    def _values(self, X: Any) -> Array:
        if self._landmarks is None:
            h = X @ self._coef
        else:
            h = self._landmarks.times(X, self._coef)
        return h + self._offset

    def _scores(self, X: Any) -> tuple[Array, Any]:
        check_is_fitted(self)
        X = self._as_table(X, reset=False)
        return self._values(X), X.dtype

    def _as_table(self, X: Any, reset: bool) -> Any:
        return validated(self, X, accept_sparse="csr", order="C", reset=reset)

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
        if F.shape[1] == 1:
            F = F[:, 0]
        return F.astype(dtype)

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
        return self.classes_[most_likely(F)]

    def predict_proba(self, X: Any) -> Array:
        """Return exp(-inverse_temperature_ L) of each class, scaled to sum to one.

        Held-out labels calibrate them; without labels these are the labels at T = C' without
        statements.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        F, dtype = self._scores(X)
        scores = self.inverse_temperature_ * self._margin.advantage(F)
        return by_class(probabilities(scores)).astype(dtype)

    def __sklearn_tags__(self) -> Tags:
        """Declare whether sparse tables are accepted, and whether the kernel is precomputed."""
        tags = super().__sklearn_tags__()
        tag_kernel(tags, self.kernel)
        return tags


def _calibration(data: LabelFolds) -> float:
    """Return the inverse temperature at which held-out labels are most likely.

    Labels of a fold are hidden, and their rows stay as unlabeled ones.
    """
    energies = np.zeros(data.shares.shape)
    for fold in range(data.folds.max() + 1):
        out = data.folds == fold
        held = data.used[out]
        labels = data.labels.copy()
        labels[held] = data.model.unlabeled
        with warnings.catch_warnings():  # of the fit with all labels, which has been reported
            warnings.simplefilter("ignore")
            model = clone(data.model).fit(data.rows, labels, data.weights)
        energies[out] = both_classes(model._advantages(data.rows, held))
    tested = data.folds != NEVER_HELD_OUT
    return inverse_temperature(
        energies[tested],
        data.shares[tested],
        data.weights[data.used[tested]],
    )
