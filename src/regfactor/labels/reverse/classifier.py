"""Semi-supervised classification by reverse prediction: rows are rebuilt from their classes, given or free."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.normalized_cut import degrees_of
from regfactor.core.blas import one_thread
from regfactor.core.params import Array, choose, is_number, is_option
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.clustering import check_domain, publish_run, rows_of, weights_of
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.kernel_blocks import Implicit, kernel_rows
from regfactor.fitting.labels import Labels, encode_labels
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import Kernel, as_kernel, is_pairwise, takes_sparse
from regfactor.labels.reverse.assignment import Balance, Fit, fit_kernel, fit_rows
from regfactor.losses.distances import Divergence, Mahalanobis, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.losses.transfers import TRANSFERS
from regfactor.solvers.assignment import LabeledClusters
from regfactor.solvers.kernel_assignment import LabeledKernelClusters
from regfactor.solvers.kernel_lloyd import KernelClusters
from regfactor.solvers.nearest import Centers

SMALL = 2**14  # numbers of a table of which no product is worth a second thread
ASSIGNMENTS = {"hard": True, "soft": False}
ADVICE = "Use a transfer that takes all real numbers, such as 'identity' or 'sigmoid', or transform these columns."


class ReverseClassifier(Uncertified, ClassifierMixin, BaseEstimator):
    r"""min over centers m of sum_L w_i D(x_i || m_{y_i}) / T_l + mu sum_U w_i min_j D(x_i || m_j) / T_u, D = D_F.

    L are the rows with a label and U those without, T_l and T_u their total weights, F the
    potential of the transfer f = F'. Each class is a cluster; the classes of unlabeled rows are
    free, those given never change. With U empty a row is classified by the nearest class mean, with
    L empty it is clustering. The soft assignment replaces min_j D_ij by -1/rho log sum_j p_j
    exp(-rho D_ij) (and D of a labeled row by D - 1/rho log p_{y_i}), with rho the sharpness and p
    the fitted shares of the classes. Unlabeled rows help where classes are clusters, one each, and
    can hurt where they are not: see `model_selection.compare_with_supervised`.

    Parameters
    ----------
    transfer : str, Potential or Divergence, default="identity"
        "identity" (D = |x - m|^2/2), "mahalanobis" (with the covariance within classes fitted too,
        shrunk by a thousandth of the variances of columns; the objective then has the terms that
        `BregmanKMeans` states), "sigmoid", "softmax" (shifts of a row do not matter), "exp",
        "cube", "relaxed_sigmoid", all for real X; or a part.
    assignment : {"hard", "soft"}, default="hard"
    unlabeled_weight : float or "balanced", default="balanced"
        mu; "balanced" is T_u / T_l, by which all rows count alike.
    sharpness : float or "auto", default="auto"
        rho > 0; "auto" is mean / variance of the divergences within classes after a hard fit, at
        most n_features / (2 mean), the scale at which exp(-rho D) is a density like the data's,
        whatever their unit. A hard fit uses it in `predict_proba` only.
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
        something true.
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
    covariance_ : ndarray of shape (n_features, n_features)
        With "mahalanobis".
    objective_, status_, n_iter_, history_
        What was minimized, and how the run went.

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

    _why = "classes of unlabeled rows are found by local search, and the model"

    def __init__(
        self,
        transfer: Any = "identity",
        assignment: str = "hard",
        unlabeled_weight: Any = "balanced",
        sharpness: Any = "auto",
        kernel: Any = None,
        normalized_cut: bool = False,
        classes: Any = None,
        *,
        unlabeled: Any = None,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.transfer = transfer
        self.assignment = assignment
        self.unlabeled_weight = unlabeled_weight
        self.sharpness = sharpness
        self.kernel = kernel
        self.normalized_cut = normalized_cut
        self.classes = classes
        self.unlabeled = unlabeled
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the centers of the classes, and the classes of the unlabeled rows.

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
            _check_limits(self)
            divergence = _divergence(self.transfer)
            hard = choose(self.assignment, ASSIGNMENTS, "assignment")
            self._check_numbers()
            X = rows_of(self, X, SquaredDistance(), reset=True)
            labels = self._labels(X, y)
            w = weights_of(X, sample_weight)
            free = self._free(labels, w)
            with _threads(X):
                if isinstance(divergence, SquaredDistance) and (
                    self.kernel is not None or self.normalized_cut
                ):
                    fit = self._fit_kernel(X, w, labels, hard)
                else:
                    fit = self._fit_rows(X, w, divergence, labels, (free, hard))
            self._publish(X, labels, fit)
        return self

    def _fit_rows(
        self,
        X: Any,
        w: Array | None,
        divergence: Divergence,
        labels: Labels,
        how: tuple[Array, bool],
    ) -> Fit:
        rows = None
        table = X
        if self.normalized_cut:
            ones = np.ones(X.shape[0]) if w is None else w
            w = ones * degrees_of(kernel_rows(self._kernel(X), X)[0], ones)
        if self.kernel is not None:
            kernel = self._kernel(X)
            rows = kernel, X, kernel.prepare(X)
            table = np.ascontiguousarray(kernel.gram(X))
        check_domain(table, divergence, ADVICE)
        balance = Balance.of(labels.codes, w, self._mu())
        k = len(labels.classes)
        codes = labels.codes.astype(np.int32)
        problem = LabeledClusters(table, balance.weights, divergence, k, codes, balance.factor)
        fit = fit_rows(self, problem, how[0], how[1], check_random_state(self.random_state))
        return replace(fit, classes=replace(fit.classes, rows=rows), mu=balance.mu)

    def _fit_kernel(self, X: Any, w: Array | None, labels: Labels, hard: bool) -> Fit:
        kernel = self._kernel(X)
        rows, own, prepared = kernel_rows(kernel, X)
        ones = np.ones(X.shape[0]) if w is None else w
        if self.normalized_cut:
            degrees = degrees_of(rows, ones)
        else:
            degrees = np.ones(len(ones))
        balance = Balance.of(labels.codes, ones * degrees, self._mu())
        assert balance.weights is not None
        space = KernelClusters(
            rows,
            own,
            balance.weights / degrees,
            1 / degrees,
            len(labels.classes),
            factor=balance.factor,
        )
        problem = LabeledKernelClusters(space, labels.codes, ones)
        random = check_random_state(self.random_state)
        implicit = partial(Implicit, kernel, X, prepared, cut=bool(self.normalized_cut))
        fit = fit_kernel(self, problem, implicit, hard, random)
        return replace(fit, mu=balance.mu)

    def _publish(self, X: Any, labels: Labels, fit: Fit) -> None:
        """Set the fitted attributes."""
        k = len(labels.classes)
        classes = fit.classes
        self._model = classes
        self.classes_ = labels.classes
        self.sharpness_ = classes.sharpness
        self.transduction_ = labels.classes[fit.labels]
        self.unlabeled_weight_ = fit.mu
        if classes.prior is None:
            self.class_prior_ = np.full(k, 1 / k)
        else:
            self.class_prior_ = classes.prior
        if isinstance(classes.centers, Centers):
            self.cluster_centers_ = classes.centers.M.astype(X.dtype)
            covariance = classes.centers.divergence.parameters
            if covariance is not None:
                self.covariance_ = covariance.astype(X.dtype)
        publish_run(self, fit.solution, fit.solver)

    def _kernel(self, X: Any) -> Kernel:
        """Return the kernel, or the affinity of cuts without one."""
        kernel = "rbf" if self.kernel is None else self.kernel
        return as_kernel(kernel, self.gamma, self.degree, self.coef0).resolved(X)

    def _labels(self, X: Any, y: Any) -> Labels:
        if y is None:
            raise ValueError("ReverseClassifier requires y to be passed, but the target y is None.")
        if np.asarray(y).ndim == 2:
            y = column_or_1d(y, warn=True)
        labels = encode_labels(y, self.unlabeled, self.classes)
        check_consistent_length(X, labels.codes)
        if not len(labels.classes):
            raise ValueError("No row has a label. Label some, or name the classes: classes=[...].")
        return labels

    def _free(self, labels: Labels, w: Array | None) -> Array:
        """Return which rows can stand for a class without a label; raise where there are not enough."""
        counted = np.ones(len(labels.codes), bool) if w is None else w > 0
        free = ~labels.labeled & counted
        known = np.unique(labels.codes[labels.labeled & counted])
        missing = np.setdiff1d(np.arange(len(labels.classes)), known)
        if len(missing) > free.sum():
            names = labels.classes[missing].tolist()
            raise ValueError(
                f"Classes {names} have no labeled row of positive weight, and {free.sum()} unlabeled rows are too few"
                " to find them in; leave them out of classes, or label a row of each.",
            )
        return free

    def _mu(self) -> float | None:
        if isinstance(self.unlabeled_weight, str):
            return None
        return float(self.unlabeled_weight)

    def _check_numbers(self) -> None:
        mu = self.unlabeled_weight
        rho = self.sharpness
        if not (isinstance(mu, str) and mu == "balanced") and not (
            is_number(mu) and 0 <= mu < np.inf
        ):
            raise ValueError(f"unlabeled_weight must be a number >= 0 or 'balanced', got {mu!r}.")
        if not is_option(rho, "auto") and not (is_number(rho) and 0 < rho < np.inf):
            raise ValueError(f"sharpness must be a positive number or 'auto', got {rho!r}.")
        if not isinstance(self.normalized_cut, bool | np.bool_):
            raise ValueError(f"normalized_cut must be True or False, got {self.normalized_cut!r}.")

    def predict(self, X: Any) -> Array:
        """Return the class of each row: of the nearest center, for a soft assignment the most probable one.

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
        """Return p_j exp(-sharpness_ D(x || m_j)), scaled to sum to one over classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        X = self._rows(X)
        with _threads(X):
            return self._model.probabilities(X).astype(X.dtype)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = rows_of(self, X, SquaredDistance(), reset=False)
        if self.kernel is None:
            check_domain(X, _divergence(self.transfer), ADVICE)
        return X

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that sparse tables are taken, and what a precomputed kernel is."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags


def _threads(X: Any) -> Any:
    """Return a context with one BLAS thread; to ask for that takes longer than to fit a small table, which has one."""
    if np.prod(X.shape) > SMALL:
        return one_thread()
    return nullcontext()


def _divergence(transfer: Any) -> Divergence:
    """Return the divergence of a transfer."""
    if not isinstance(transfer, str):
        return as_divergence(transfer)
    return as_divergence(choose(transfer, {**TRANSFERS, "mahalanobis": Mahalanobis()}, "transfer"))
