"""Semi-supervised classification by reverse prediction: rows predicted from their classes.

The objective is (26) of White & Schuurmans (2012). Weights that enter the objective enter the means
too; as printed, mu changes nothing (algorithm 10) and the objective rises (algorithm 11).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.blas import one_thread
from regfactor.core.loop import Clock, Limits, Solution
from regfactor.core.params import Array
from regfactor.fitting.base import Choice, Estimator, Run
from regfactor.fitting.calibration import (
    NEVER_HELD_OUT,
    HeldOutEnergies,
    Temperature,
    label_folds,
)
from regfactor.fitting.clustering import check_domain
from regfactor.fitting.inputs import row_weights, validated
from regfactor.fitting.kernel_blocks import ImplicitCenters, KernelRows, degrees_of, kernel_rows
from regfactor.fitting.labels import Labels, encode_labels, labels_of_rows
from regfactor.fitting.parameters import NON_NEGATIVE, POSITIVE, RUN_CONSTRAINTS, parametrized
from regfactor.kernels import as_kernel, tag_kernel
from regfactor.labels.reverse.assignment import (
    ClassCenters,
    KernelFeatures,
    diagonal_start,
    kernel_divergences,
    log_joint_of_rows,
    memberships_of,
    nearest_classes,
    start_of_mixture,
    warn_if_merged,
)
from regfactor.losses.distances import Divergence, SquaredDistance
from regfactor.losses.divergences import TRANSFER_DIVERGENCES, as_divergence
from regfactor.losses.potentials import Potential
from regfactor.problems.clusters import FREE, SAMPLED_ROWS, ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.base import solve_from, solve_within
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import first_point

SINGLE_THREAD_ENTRIES = 2**14  # of a table for whose products BLAS starts no second thread
HARD_ITERATIONS = 10  # before the soft ones
# before labels are held out: densities exp(-rho D) of columns that depend on each other are too
# sure of a class
USUAL_INVERSE_TEMPERATURE = 0.3
UNLABELED_SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)  # of the balanced weight, for "auto"
ADVICE = (
    "Use a transfer that takes all real numbers, such as 'identity' or 'sigmoid', or transform "
    "these columns."
)


@dataclass(frozen=True, eq=False)
class Balance:
    """mu, weights relative to labeled rows, and the factor that makes the sum objective (26)."""

    mu: float
    weights: Array | None
    factor: float

    @staticmethod
    def of(codes: Array, w: Array | None, mu: float | str) -> Balance:
        """Return the weights for mu; "balanced" is T_u / T_l, by which all rows count alike."""
        labeled = codes != FREE
        if w is None:
            total = float(len(codes))
            labeled_mass = float(labeled.sum())
        else:
            total = float(w.sum())
            labeled_mass = float(w[labeled].sum())
        free_mass = 0.0
        if not labeled.all():
            free_mass = max(total - labeled_mass, 0.0)
        balanced = isinstance(mu, str)
        if not (labeled_mass > 0 and free_mass > 0):  # one sum is empty, the other a mean
            mu = 1.0 if balanced else float(mu)
            share = 1.0 if labeled_mass > 0 else mu
            return Balance(mu, w, share / total)
        if balanced:
            return Balance(free_mass / labeled_mass, w, 1 / labeled_mass)
        relative = np.where(labeled, 1.0, float(mu) * labeled_mass / free_mass)
        if w is not None:
            relative *= w
        return Balance(float(mu), relative, 1 / labeled_mass)


@dataclass(frozen=True, eq=False)
class ClassInputs:
    """Rows, labels and weights as they were read, with a kernel where it is used.

    `kernel` has rows in its feature space, in which centers lie; `features` are the rows of a
    kernel matrix, which are then the table.
    """

    table: Any
    labels: Labels
    divergence: Divergence
    balance: Balance
    kernel: KernelRows | None = None
    features: KernelFeatures | None = None
    degrees: Array | None = None
    sample_weight: Array | None = None
    # of the rows in T_l and T_u; None where all are one
    masses: Array | None = None


@parametrized
class ReverseClassifier(ClassifierMixin, Estimator):
    r"""min over m of sum_L w_i D(x_i || m_{y_i}) / T_l + mu sum_U w_i min_j D(x_i || m_j) / T_u.

    L are the rows with a label and U those without, T_l and T_u their total weights, D = D_F with
    F the potential of the transfer f = F', m the centers. Each class is a cluster; the classes of
    unlabeled rows are free, those given never change. With U empty a row is classified by the
    nearest class mean, with L empty it is clustering. The soft assignment replaces min_j D_ij by
    -1/rho log sum_j p_j exp(-rho D_ij) (and D of a labeled row by D - 1/rho log p_{y_i}), with rho
    the sharpness and p the fitted shares of the classes. Unlabeled rows help where classes are
    clusters, one each, and can hurt where they are not: see
    `model_selection.compare_with_supervised`.

    Parameters
    ----------
    transfer : str, Potential or Divergence, default="identity"
        "identity" (D = |x - m|^2/2), "mahalanobis" (with the covariance within classes fitted too,
        shrunk by a thousandth of the variances of columns; the objective then has the terms that
        `BregmanKMeans` states), "sigmoid", "softmax" (shifts of a row do not matter), "exp",
        "cube", "relaxed_sigmoid", all for real X; "kl" for X >= 0 (D = x ln(x/m) - x + m); or a
        part.
    assignment : {"hard", "soft"}, default="hard"
    unlabeled_weight : float, "balanced" or "auto", default="balanced"
        mu; "balanced" is T_u / T_l, by which all rows count alike. "auto" is a share of it, 0, .01,
        .03, .1, .3 or 1: the one under which held-out labels are most likely.
    sharpness : float, "auto" or "spread", default="auto"
        rho > 0; "auto" is n_features / (2 mean) of the divergences within classes after a hard fit,
        the most likely rho of densities exp(-rho D), whatever their unit; "spread", used in the
        feature space of a kernel in any case, is mean / variance of them, if that is less. A hard
        fit uses it in `predict_proba` only. Where it is not a number, held-out labels calibrate
        `predict_proba`.
    kernel : str, callable or Kernel, optional
        With "identity" centers lie in the feature space of the kernel, which is never formed. With
        any other transfer the rows of the kernel matrix of all training rows are the features, as
        in the papers, which is another model. For that under "identity", fit on
        `as_kernel("rbf").resolved(X).gram(X)`.
    normalized_cut : bool, default=False
        Multiply weights by degrees d = K w, with K the kernel ("rbf" when there is none), in T_l
        and T_u too. With "identity" the points are phi(x_i)/d_i: under "balanced" weights the hard
        objective is then (cut + sum_i w_i K_ii/d_i - n_classes) / (2 T_l), with cut the normalized
        cut of K among the partitions that agree with the labels. With other transfers points are
        not scaled (White & Schuurmans 2012), and sum_i w_i d_i D(x_i || m) is no normalized cut:
        crowded rows count more.
    classes : array-like, optional
        All classes, when some have no labeled row. Such a class begins at the unlabeled row
        farthest from the centers of the others; when no row has a label, classes are clusters in
        arbitrary order.
    unlabeled : optional
        The marker of unlabeled rows in y; by default -1, NaN and None, for strings None, NaN and
        "".
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Hard: the fit stops when no class changes, or (without a kernel) the squared moves of all
        centers are at most this share of the mean variance. Soft: change of rho times the objective
        per unit of weight.
    time_limit, verbose, callback : optional
        As in all estimators; the callback is given every `Iterate` and ends the run by returning
        a true value.
    random_state : int, RandomState instance or None, default=None
        Used only when no row has a label.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted, or as `classes` names them.
    cluster_centers_ : ndarray of shape (n_classes, n_features)
        m; with rows of a kernel as features they have n_samples columns, in its feature space they
        are not set.
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row, given ones kept.
    class_prior_ : ndarray of shape (n_classes,)
        p; equal shares for a hard assignment.
    sharpness_, unlabeled_weight_ : float
        The numbers that were used.
    inverse_temperature_ : float
        By which `predict_proba` multiplies log p_j - sharpness_ D(x || m_j). It is found when it is
        first needed, or when the model is saved, from a copy of X that is kept until then.
    covariance_ : ndarray of shape (n_features, n_features)
        With "mahalanobis".
    objective_, status_, n_iter_, history_
        What was minimized, and how the run went.

    See Also
    --------
    ReverseRegressor : The same idea with numbers for targets.
    ExpectationSVC : Learns from statements about unlabeled rows.

    Notes
    -----
    With the defaults, those of the paper, all rows count alike: where clusters are not classes, the
    many unlabeled rows move the centers away from the few labels. On thirteen public tables with 2,
    5 and 10 labels for each class, .54 of the unlabeled rows are right, .58 with
    ``unlabeled_weight="auto"``, .61 under "mahalanobis" and .64 under both, as by logistic
    regression. No weight makes "identity" as good: the best one in hindsight has .61.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ReverseClassifier
    >>> X = np.array([[0.0], [0.3], [0.1], [2.0], [2.2], [1.9]])
    >>> model = ReverseClassifier().fit(X, ["low", "", "", "high", "", ""])
    >>> model.transduction_
    array(['low', 'low', 'low', 'high', 'high', 'high'], dtype='<U4')
    >>> model.predict([[0.4]])
    array(['low'], dtype='<U4')
    """

    _no_certificate = "classes of unlabeled rows are found by local search, and the model"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "transfer": [StrOptions({*TRANSFER_DIVERGENCES}), Potential, Divergence],
        "assignment": [StrOptions({"hard", "soft"})],
        "unlabeled_weight": [NON_NEGATIVE, StrOptions({"balanced", "auto"})],
        "sharpness": [POSITIVE, StrOptions({"auto", "spread"})],
        "normalized_cut": ["boolean"],
        **RUN_CONSTRAINTS,
    }

    transfer: Any = "identity"
    assignment: str = "hard"
    unlabeled_weight: Any = "balanced"
    sharpness: Any = "auto"
    kernel: Any = None
    normalized_cut: bool = False
    classes: Any = None
    _: KW_ONLY
    unlabeled: Any = None
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the centers of the classes, and the classes of the unlabeled rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Absent entries of a sparse table are zeros.
        y : array-like of shape (n_samples,)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is not known.
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> ClassInputs:
        if isinstance(self.transfer, str):
            divergence = TRANSFER_DIVERGENCES[self.transfer]
        else:
            divergence = as_divergence(self.transfer)
        X = validated(self, X, accept_sparse="csr", order="C")
        labels = encode_labels(labels_of_rows(y, X, self), self.unlabeled, self.classes)
        w = row_weights(X, sample_weight)
        if w is not None:
            w = w.astype(np.float64)
        _check_classes(labels, w)
        if self.kernel is not None or self.normalized_cut:
            with _threads(X):
                return self._read_kernel(X, labels, w, divergence)
        if not isinstance(divergence, SquaredDistance):  # which takes every number
            check_domain(X, divergence, ADVICE)
        balance = Balance.of(labels.codes, w, self.unlabeled_weight)
        return ClassInputs(X, labels, divergence, balance, masses=w)

    def _read_kernel(
        self,
        X: Any,
        labels: Labels,
        w: Array | None,
        divergence: Divergence,
    ) -> ClassInputs:
        name = "rbf" if self.kernel is None else self.kernel  # the affinity of cuts
        kernel = as_kernel(name, self.gamma, self.degree, self.coef0).resolved(X)
        implicit = isinstance(divergence, SquaredDistance)
        rows = None
        features = None
        degrees = None
        table = X
        if w is None:
            ones = np.ones(X.shape[0])
        else:
            ones = w
        if implicit or self.normalized_cut:
            rows = kernel_rows(kernel, X)
        if rows is not None and self.normalized_cut:
            degrees = degrees_of(rows.rows, ones)
            w = ones * degrees
        if not implicit:
            rows = None
            if self.kernel is not None:
                features = KernelFeatures(kernel, X, kernel.prepare(X))
                table = np.ascontiguousarray(kernel.gram(X))
            check_domain(table, divergence, ADVICE)
        balance = Balance.of(labels.codes, w, self.unlabeled_weight)
        return ClassInputs(table, labels, divergence, balance, rows, features, degrees, ones, w)

    def _state(self, inputs: ClassInputs) -> Clusters | KernelClusters:
        k = len(inputs.labels.classes)
        codes = inputs.labels.codes.astype(np.int32)
        balance = inputs.balance
        if inputs.kernel is None:
            return Clusters(
                inputs.table,
                balance.weights,
                inputs.divergence,
                k,
                codes,
                factor=balance.factor,
            )
        ones = np.ones(len(codes))
        weights = ones if balance.weights is None else balance.weights
        degrees = ones if inputs.degrees is None else inputs.degrees
        return KernelClusters(
            inputs.kernel.rows,
            inputs.kernel.diagonal,
            weights / degrees,
            1 / degrees,
            k,
            codes,
            factor=balance.factor,
            graph_weights=inputs.sample_weight,
        )

    def _choose(self, problem: Any, inputs: ClassInputs, run: Run) -> Choice[Any]:
        """Return the problem at the weight of unlabeled rows that held-out labels prefer."""
        codes = inputs.labels.codes
        if self.unlabeled_weight != "auto" or not (codes == FREE).any():
            return Choice(problem)
        best = inputs.balance
        most = -np.inf
        for share in UNLABELED_SHARES:
            mu = share * inputs.balance.mu
            held_out = self._held_out(inputs, mu, run.remaining())
            if held_out is None or run.clock.expired:
                break
            temperature = held_out.temperature(USUAL_INVERSE_TEMPERATURE)
            likelihood = held_out.log_likelihood(temperature)
            if likelihood > most:
                most = likelihood
                best = Balance.of(codes, inputs.masses, mu)
        return Choice(self._state(replace(inputs, balance=best)), best)

    def _solve(self, problem: Any, inputs: ClassInputs, run: Run) -> Solution[Any]:
        hard = self._solve_hard(problem, run)
        if self.assignment == "hard":
            return hard
        solution = self._solve_soft(problem, hard.point, run)
        soft = problem.softened(solution.point.sharpness)
        joint = log_joint_of_rows(soft, solution.point)
        nearest = nearest_classes(problem, hard.point)
        warn_if_merged(problem.codes, nearest, joint.argmax(axis=1), solution.point.sharpness)
        return solution

    def _solve_hard(self, problem: Any, run: Run) -> Solution[Any]:
        """Return nearest centers; those that a soft assignment begins with."""
        start = first_point(problem, run.random)
        starts = [start]
        if isinstance(problem, Clusters) and problem.divergence.adaptive:
            starts.append(diagonal_start(problem, start))
        limits = run.remaining()
        if self.assignment == "soft":
            limits = Limits(self.tol, HARD_ITERATIONS, limits.time_limit)
        if len(starts) == 1:
            return solve_within(problem, limits, start)
        return solve_from(problem, limits, starts)

    def _solve_soft(self, problem: Any, hard: ClusterPoint, run: Run) -> Solution[Any]:
        """Return the mixture that begins with the classes of a hard assignment."""
        soft = problem.softened(self._find_sharpness(problem, hard))
        solution = solve_within(soft, run.remaining(), start_of_mixture(problem, hard))
        joint = log_joint_of_rows(soft, solution.point)
        labels = problem.restrict(joint, slice(None)).argmax(axis=1)
        return replace(solution, point=replace(solution.point, labels=labels))

    def _find_sharpness(self, problem: Clusters | KernelClusters, point: ClusterPoint) -> float:
        """Return the sharpness, the automatic one from the divergences within classes.

        Under exp(-rho D) they are about gamma distributed with rate rho and shape half the
        dimension, so that rho is most likely dimension / (2 mean), whatever their unit.
        Where the dimension is not that of the columns, as in the feature space of a kernel, the
        spread gives it: rho is mean / variance. With many rows a sample of them is taken.
        """
        if not isinstance(self.sharpness, str):
            return float(self.sharpness)
        spread = self.sharpness == "spread" or isinstance(problem, KernelClusters)
        assert point.labels is not None
        if isinstance(problem, KernelClusters):
            D = kernel_divergences(problem, point)
            dimension = len(D)
            own = D[np.arange(dimension), point.labels]
            weights = problem.mass
        else:
            n, dimension = problem.X.shape
            some = slice(None, None, -(-n // SAMPLED_ROWS))
            own = Centers.of(problem, point).own(problem.X[some], point.labels[some])
            weights = problem.row_weights[some]
        if not weights.any():
            return 1.0
        mean = float(np.average(own, weights=weights))
        if mean <= 0:
            return 1.0
        # of shares of the mean, whose squares do not overflow
        variance = float(np.average(np.square(own / mean - 1), weights=weights))
        most = dimension / (2 * mean)
        if spread and variance > 0:
            return min(1 / (mean * variance), most)
        return most

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: ClassInputs,
        run: Run,
    ) -> Solution[Any]:
        problem = choice.problem
        if choice.selection is not None:
            inputs = replace(inputs, balance=choice.selection)
        point = solution.point
        k = problem.n_clusters
        self.classes_ = inputs.labels.classes
        self.transduction_ = self.classes_[point.labels]
        self.unlabeled_weight_ = inputs.balance.mu
        if point.shares is None:
            self.class_prior_ = np.full(k, 1 / k)
        else:
            self.class_prior_ = point.shares
        self.sharpness_ = point.sharpness
        if point.sharpness == np.inf:
            self.sharpness_ = self._find_sharpness(problem, point)
        centers: Centers | ImplicitCenters
        if inputs.kernel is None:
            centers = Centers.of(problem, point)
            if inputs.features is None:
                dtype = inputs.table.dtype
            else:
                dtype = inputs.features.X.dtype
            self.cluster_centers_ = point.centers.astype(dtype)
            if point.covariance is not None:
                self.covariance_ = point.covariance.astype(dtype)
        else:
            found, _ = problem.centers(memberships_of(problem, point))
            if point.memberships is None:
                found = found.compact()
            centers = inputs.kernel.scoring(found, self.normalized_cut)
        prior = None if self.assignment == "hard" else point.shares
        self._divergence = inputs.divergence
        self._model = ClassCenters(centers, self.sharpness_, prior, inputs.features)
        self._temperature = Temperature(1.0)
        if isinstance(self.sharpness, str):
            self._temperature = self._lazy_temperature(inputs, run)
        return solution

    def _lazy_temperature(self, inputs: ClassInputs, run: Run) -> Temperature:
        """Return the temperature of `predict_proba`, for which a copy of the table is kept.

        The matrix of a kernel is too large to be kept, so that it is found at once.
        """
        of_kernel = self.kernel is not None or self.normalized_cut
        if not of_kernel:
            inputs = replace(inputs, table=inputs.table.copy())
        temperature = Temperature(partial(copy(self)._calibration, inputs, run.limits))
        if of_kernel:
            return Temperature(temperature.value)
        return temperature

    def _calibration(self, inputs: ClassInputs, limits: Limits) -> float:
        """Return the inverse temperature at which held-out labels are most likely."""
        codes = inputs.labels.codes
        if inputs.masses is None:
            weights = np.ones(len(codes))
        else:
            weights = inputs.masses
        if not np.any((codes != FREE) & (weights > 0)):
            return 1.0
        mu = self.unlabeled_weight
        if mu == "auto":
            mu = inputs.balance.mu
        held_out = self._held_out(inputs, mu, limits)
        if held_out is None:
            return USUAL_INVERSE_TEMPERATURE
        return held_out.temperature(USUAL_INVERSE_TEMPERATURE)

    def _held_out(
        self,
        inputs: ClassInputs,
        mu: float | str,
        limits: Limits,
    ) -> HeldOutEnergies | None:
        """Return the energies of labels that are held out, in folds; None if none can be.

        Labels of a fold are hidden, and their rows stay as unlabeled ones.
        """
        codes = inputs.labels.codes
        if inputs.masses is None:
            weights = np.ones(len(codes))
        else:
            weights = inputs.masses
        used = np.flatnonzero((codes != FREE) & (weights > 0))
        shares = np.eye(len(inputs.labels.classes))[codes[used]]
        folds = label_folds(shares)
        if (folds == NEVER_HELD_OUT).all():
            return None
        # every class with labels keeps one, so that no random start is drawn
        quiet = Run(
            replace(limits, callback=None, progress=None),
            Clock(limits.time_limit),
            np.random.RandomState(0),
        )
        energies = []
        order = []
        for fold in range(folds.max() + 1):
            held = used[folds == fold]
            known = codes.copy()
            known[held] = FREE
            hidden = replace(
                inputs,
                labels=Labels(inputs.labels.classes, known),
                balance=Balance.of(known, inputs.masses, mu),
            )
            problem = self._state(hidden)
            point = self._solve_hard(problem, quiet).point
            if self.assignment == "soft":
                point = self._solve_soft(problem, point, quiet).point
            energies.append(self._energies(problem, point, held))
            order.append(np.flatnonzero(folds == fold))
        labels = np.concatenate(order)
        return HeldOutEnergies(np.vstack(energies), shares[labels], weights[used[labels]])

    def _energies(self, problem: Any, point: ClusterPoint, rows: Array) -> Array:
        """log p_j - sharpness D_ij of some training rows."""
        if point.shares is not None:
            return log_joint_of_rows(problem, point)[rows]
        if isinstance(problem, KernelClusters):
            D = kernel_divergences(problem, point)[rows]
        else:
            D = Centers.of(problem, point).between(problem.X[rows])
        # the one of the fit with all labels, once that is known
        sharpness = getattr(self, "sharpness_", None)
        if sharpness is None:
            sharpness = self._find_sharpness(problem, point)
        return -sharpness * D.astype(np.float64)

    @property
    def inverse_temperature_(self) -> float:
        """The factor of log p_j - sharpness_ D(x || m_j) in `predict_proba`."""
        check_is_fitted(self)
        return self._temperature.value

    def _context(self, inputs: ClassInputs) -> AbstractContextManager[Any]:
        return _threads(inputs.table)

    def predict(self, X: Any) -> Array:
        """Return the class of the nearest center, for a soft assignment the most probable one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._rows(X)
        with _threads(X):
            return self.classes_[self._model.nearest(X)]

    def predict_proba(self, X: Any) -> Array:
        """Return (p_j exp(-sharpness_ D(x || m_j)))^inverse_temperature_, with a sum of one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        X = self._rows(X)
        with _threads(X):
            return self._model.probabilities(X, self.inverse_temperature_).astype(X.dtype)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validated(self, X, accept_sparse="csr", order="C", reset=False)
        if self.kernel is None:
            check_domain(X, self._divergence, ADVICE)
        return X

    def __sklearn_tags__(self) -> Tags:
        """Return tags: sparse tables, and a precomputed kernel."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if self.kernel is not None:
            tag_kernel(tags, self.kernel)
        return tags


def _threads(X: Any) -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread.

    To ask for that takes longer than to fit a small table, for which BLAS uses one anyway.
    """
    if np.prod(X.shape) <= SINGLE_THREAD_ENTRIES:
        return nullcontext()
    context: AbstractContextManager[Any] = one_thread()
    return context


def _check_classes(labels: Labels, w: Array | None) -> None:
    """Raise if there is no class, or too few unlabeled rows to find those without a label in."""
    if not len(labels.classes):
        raise ValueError("No row has a label. Label some, or name the classes: classes=[...].")
    codes = labels.codes
    if w is not None:
        codes = codes[w > 0]
    counts = np.bincount(codes - FREE, minlength=len(labels.classes) + 1)
    free = int(counts[0])
    missing = np.flatnonzero(counts[1:] == 0)
    if len(missing) > free:
        names = labels.classes[missing].tolist()
        raise ValueError(
            f"Classes {names} have no labeled row of positive weight, and {free} unlabeled rows "
            "are too few to find them in; leave them out of classes, or label a row of each.",
        )
