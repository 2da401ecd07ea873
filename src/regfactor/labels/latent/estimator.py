"""Semi-supervised regression from latent rows that rebuild inputs and targets (Grabocka et al. 2014)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution, Status, run
from regfactor.core.params import Array, warn
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.factor_estimator import _print_progress
from regfactor.fitting.inputs import codes_of, row_weights, validated
from regfactor.fitting.rollback import all_or_nothing
from regfactor.fitting.targets import Targets
from regfactor.labels.latent.checks import (
    check_columns,
    check_parameters,
    check_targets,
    limits,
    scalers,
    settings_of,
)
from regfactor.labels.latent.fit import Fit, Found

STOPPED = (Status.MAX_ITER, Status.STOPPED)  # early stopping is part of the model


class LatentRegressor(
    Uncertified,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """What a fitted one does: places rows among the latent ones, and predicts from there."""

    _found: Found
    _why = "latent rows are found by descent, and the model"

    def transform(self, X: Any) -> Array:
        """Return the latent row of every row, found for each alone; holes (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        return self._place(X).astype(X.dtype)

    def inverse_transform(self, X: Any) -> Array:
        """Return the inputs that latent rows rebuild, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = codes_of(X, self._n_features_out).astype(np.float64, copy=False)
        return np.asarray(
            self._input_scale.inverse_transform(self._found.inputs(Z)),
            self.codes_.dtype,
        )

    def predict(self, X: Any) -> Array:
        """Return the targets of every row, held near the range of the given ones by `clip`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        Y = self._predicted(self._place(X)).astype(X.dtype)
        if self._flat:
            return Y[:, 0]
        return Y

    def _inputs(self, X: Any, reset: bool) -> Array:
        X = validated(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )
        if is_sparse(X):
            return X.toarray()
        return np.asarray(X)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Targets, Array]:
        """Return what is fitted to, validated: inputs, targets and weights of rows."""
        X = self._inputs(X, reset=True)
        targets = Targets.of(y, X)
        weights = row_weights(X, sample_weight)
        return X, targets, np.ones(len(X)) if weights is None else weights.astype(np.float64)

    def _place(self, X: Array) -> Array:
        return self._found.place(self._input_scale.transform(X.astype(np.float64)))

    def _predicted(self, Z: Array) -> Array:
        Y = self._target_scale.inverse_transform(self._found.predict(Z))
        return np.clip(Y, self._low, self._high)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that holes and sparse tables are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SNFRegressor(LatentRegressor):
    r"""min over Z, V, W of |X - phi(Z)V|^2 + lx |V|^2 + mu (|y - phi(Z_l)W|^2 + ly |W|^2) + lz |Z|^2, offsets free.

    Supervised nonlinear factorization: few latent numbers z_i of each row rebuild its inputs and,
    on the rows l that have one, its target, by ridge regressions on features phi(z) of a kernel.
    Rows without a target shape Z through their inputs. Regressions are eliminated exactly; what is
    left is a function of Z alone, which is not convex: descended from principal components, its
    minimum is a local one, without a certificate. Inputs and targets are brought to [-1, 1] first.

    With Z free, targets bend only the latent rows that have one, and the others do not follow. A
    back-constraint makes z a function of x, the same for all rows.

    Parameters
    ----------
    n_components : float or int, default=0.5
        Number of latent dimensions, or their share of the number of inputs.
    kernel : {"poly", "rbf", "linear"}, default="poly"
        (z'y + 1)^degree, exp(-gamma |z - y|^2), or "poly" of degree 1.
    degree : int, default=1
        With degree 1 this is linear latent reconstruction.
    back_constraint : {"linear", "kernel"} or None, default="linear"
        z = (x - mean) E; or, beside that, Gaussian features of 200 training rows; or none: each z_i
        is free.
    lambda_x, lambda_y, lambda_z : float, default=0.1
        lx, ly and lz: ridges of the two regressions and of Z, all > 0: without the last Z grows and
        the others vanish.
    target_weight : float, default=10.0
        mu >= 0: how much targets count beside inputs; about 1 suits free Z.
    max_iter : int, default=60
        Iterations from principal components on; 0 stays there. Early stopping is a regularizer of
        its own, so reaching the limit is no warning.
    clip : float or None, default=0.1
        Predictions leave the range of the given targets by at most this share of it.
    scale : bool, default=True
        Whether to bring inputs and targets to [-1, 1]; ridges are in these units.
    solver : {"lbfgs", "paper"}, default="lbfgs"
        "paper" is the published algorithm, gradient sweeps over pairs of rows, for comparison; it
        needs free Z, and `learning_rate`. It descends in the objective above, not in the
        differently weighted one that the paper's own rates imply.
    gamma : float or {"scale", "median", "neighbors"}, default="scale"
        Width of the kernel "rbf"; rules are applied to the principal components.
    n_random_features : int, default=500
        Random features that stand for the kernel "rbf" beyond 3000 rows.
    learning_rate : float, default=0.01
    tol : float, default=1e-4
        Relative change of the objective in 15 iterations at which the descent ends.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Draws landmarks, random features, and first steps in directions without variance.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components)
        Z.
    transduction_ : ndarray of the shape of y
        Targets of all training rows, the given ones kept.
    objective_ : float
        In scaled units.
    status_ : Status
    n_iter_ : int
    history_ : list of Record
    solver_ : str

    Notes
    -----
    A missing input is filled by its mean, then after every 15 iterations by what the latent
    row rebuilds; it counts as if it had been seen so. New rows are completed by the same rule,
    until latent row and reconstruction agree; under free Z, only what is seen of them decides.

    A row of weight w counts as w equal rows in the objective. Rules for `gamma`, and landmarks,
    count every row once: give `gamma` as a number where this matters. Free latent rows of larger
    weight take larger steps, so that a descent that is stopped early ends elsewhere than one with
    equal rows.

    New rows without a back-constraint are placed where they are rebuilt best, with all weights
    held: training rows without a target are found again, those with one need not be.

    References
    ----------
    Grabocka, Bedalli & Schmidt-Thieme (2014), Supervised nonlinear factorizations excel
    in semi-supervised regression.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import SNFRegressor
    >>> t = np.linspace(-1, 1, 9)
    >>> X = np.column_stack([t, -t, 2 * t])
    >>> y = np.array([-1.0, *[np.nan] * 3, 0.0, *[np.nan] * 3, 1.0])
    >>> SNFRegressor(lambda_y=1e-3).fit(X, y).transduction_.round(2)
    array([-1.  , -0.75, -0.5 , -0.25,  0.  ,  0.25,  0.5 ,  0.75,  1.  ])
    """

    def __init__(
        self,
        n_components: float | int = 0.5,
        kernel: str = "poly",
        degree: int = 1,
        back_constraint: str | None = "linear",
        lambda_x: float = 0.1,
        lambda_y: float = 0.1,
        lambda_z: float = 0.1,
        target_weight: float = 10.0,
        max_iter: int = 60,
        clip: float | None = 0.1,
        scale: bool = True,
        solver: str = "lbfgs",
        *,
        gamma: float | str = "scale",
        n_random_features: int = 500,
        learning_rate: float = 0.01,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.degree = degree
        self.back_constraint = back_constraint
        self.lambda_x = lambda_x
        self.lambda_y = lambda_y
        self.lambda_z = lambda_z
        self.target_weight = target_weight
        self.max_iter = max_iter
        self.clip = clip
        self.scale = scale
        self.solver = solver
        self.gamma = gamma
        self.n_random_features = n_random_features
        self.learning_rate = learning_rate
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where an input is missing; absent entries of a sparse matrix are zero.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        check_parameters(self)
        with all_or_nothing(self):
            X, targets, weights = self._read(X, y, sample_weight)
            counted = weights > 0  # a row of weight zero is placed, not learned from
            check_targets(targets, counted)
            check_columns(X[counted])
            settings = settings_of(self, X.shape[1])
            scales = scalers(self.scale, X[counted].astype(np.float64), targets.table[counted])
            fit = Fit(
                scales[0].transform(X[counted].astype(np.float64)),
                scales[1].transform(targets.table[counted]),
                weights[counted],
                settings,
                check_random_state(self.random_state),
            )
            solution = self._run(fit)
            self._publish(X, targets, counted, scales, fit.found(solution.point), solution)
        return self

    def _run(self, fit: Fit) -> Solution[Any]:
        solution = run(
            fit.iterates(),
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=self.callback,
            progress=_print_progress if self.verbose else None,
        )
        complaint = self._complaint(solution)
        if complaint is not None:
            warn(f"{type(self).__name__} {complaint}.", ConvergenceWarning)
        return solution

    def _complaint(self, solution: Solution[Any]) -> str | None:
        """Return what went wrong in a run, and the remedy; None where nothing did."""
        if solution.status is Status.DIVERGED:
            return "diverged: lower learning_rate, or use solver='lbfgs'"
        start, *later = (record.objective for record in solution.history)
        if self.solver == "paper" and later and min(later) > start + self.tol * abs(start):
            return f"stays at its start, since none of {len(later)} epochs improved on the start: lower learning_rate"
        if solution.status.converged or solution.status in STOPPED:
            return None
        return f"did not converge: {solution.status.message}"

    def _publish(
        self,
        X: Array,
        targets: Targets,
        counted: Array,
        scales: tuple[Any, Any],
        found: Found,
        solution: Solution[Any],
    ) -> None:
        """Set the fitted attributes, all at once at the end."""
        self._found = found
        self._flat = targets.flat
        self._input_scale, self._target_scale = scales
        self._low, self._high = limits(targets.table[counted], self.clip)
        Z = np.empty((len(X), found.Z.shape[1]))
        Z[counted] = found.Z
        if not counted.all():
            Z[~counted] = self._place(X[~counted])
        self._n_features_out = Z.shape[1]
        self.codes_ = Z.astype(X.dtype)
        completed = np.where(np.isnan(targets.table), self._predicted(Z), targets.table)
        self.transduction_ = completed.astype(np.result_type(targets.dtype, X)).reshape(
            targets.shape,
        )
        self.objective_ = solution.objective
        self.status_ = solution.status
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self.solver_ = self.solver
