"""Labels as a second view of the inputs, at the global optimum (thesis, proposition 9)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from regfactor.core.params import Array
from regfactor.fitting.calibration import both_classes
from regfactor.fitting.labels import Labels, encode_labels, labels_of_rows, most_likely
from regfactor.fitting.logistic_readout import LogisticReadout, logistic_readout
from regfactor.fitting.parameters import parametrized
from regfactor.fitting.ridge_readout import RidgeReadout, column_readouts, ridge_readout
from regfactor.fitting.targets import Targets
from regfactor.labels.convex.base import ConvexFactorEstimator, LabelInputs
from regfactor.losses import Logistic, Softmax, as_loss


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.readout == "regression":
        return True
    if isinstance(as_loss(estimator.loss), Logistic | Softmax):
        return True
    raise AttributeError(
        f"loss={estimator.loss!r} has no probabilities; use 'logistic' or 'softmax'."
    )


@parametrized
class ConvexFactorClassifier(ClassifierMixin, ConvexFactorEstimator):
    r"""min over Z, b of L(Zy + b; y)/T_l + w/(n d) L(Zx; X) + alpha |||[Zx, Zy]|||.

    Inputs and labels are two views of the same rows under shared codes: Zx = codes @ components
    reconstructs all n rows of d inputs, Zy = codes @ label components predicts the labels of the
    T_l labeled ones. The two-view norm |||.||| is the least sum of lengths of codes with components
    of length at most b1 and label components of length at most b2. It is convex: the fit is global,
    with a duality gap. Two classes are one column of labels; more are one column each against the
    rest, or jointly under "softmax". Classes are predicted by logistic regression on the codes that
    inputs alone give a row, with probabilities calibrated by held-out labels.

    Parameters
    ----------
    alpha_share : float or "auto", default="auto"
        Strength of the norm as a share of `alpha_max_`, from which on the model is empty. "auto"
        takes, of 0.5 down to 0.005, the share whose codes explain the labels with most evidence
        (see Notes).
    reconstruction_weight : float or "auto", default="auto"
        w > 0: weight of reconstructing the inputs relative to predicting the labels. "auto" lets
        inputs pull five times as hard as labels at zero: w = 5 (b2/b1) |g_y| n d / |X|, with the
        spectral norms of the gradient g_y of the label loss and of the inputs.
    loss : str or Loss, default="logistic"
        Of the labels: "logistic", "softmax", "squared", "smoothed_hinge", "squared_hinge", "hinge",
        ...
    reconstruction_loss : str or Loss, default="squared"
        Of the inputs.
    bounds : pair of float, default=(1.0, 1.0)
        b1 and b2, in the scale of the fit.
    alpha : float or "auto", optional
        Absolute strength in place of the share. "auto" tries 20 strengths from `alpha_max_` down to
        a thousandth, and takes the one that predicts the held-out labels of a random tenth of the
        labeled rows best.
    scale : bool, default=True
        Whether to fit to centered columns of deviation one (of interquartile range one under robust
        losses), so that units do not matter. Columns under other losses are fitted as they are.
    readout : {"regression", "components"}, default="regression"
        How labels are predicted: by a regression on the codes, or as in the thesis by the label
        components (see Notes).
    fit_intercept : bool, default=True
        Whether the label columns have unpenalized offsets. Inputs have none; `scale` centers them.
    unlabeled : optional
        The marker of unlabeled rows in y; by default -1, NaN and None, for strings None, NaN and
        "".
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="observed"
        What the absent entries of a sparse matrix are.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, optional
        Seed of the held-out labels of `alpha="auto"`.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
        In the units of the inputs, like `intercept_`, the centers of the columns.
    label_components_ : ndarray of shape (n_atoms, n_label_columns)
    label_intercept_ : ndarray of shape (n_label_columns,)
    alpha_share_, reconstruction_weight_ : float
        Those of the fit.
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row; given ones are kept.
    view_weight_ : ndarray of shape (2,)
        eta and 1 - eta of the norm: how much inputs and labels decide.
    alpha_, alpha_max_, objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` states in one sentence how far the fit can be from the optimum.

    See Also
    --------
    ConvexFactorRegressor : The same model with numbers for targets.
    TwoViewSubspace : Two tables in place of inputs and labels.
    ReverseClassifier : Reconstructs inputs from labels instead of from shared codes.

    Notes
    -----
    Codes move a predictor by b2 times their length at most. Where that is too little, because
    inputs are small or a label hangs on a weak direction of them, labeled rows follow their labels
    by codes of their own, and label components learn little, however small the gap. The regression
    on codes of the inputs alone does not depend on this; under `readout="components"` raise the
    second bound, to 3 or 10.

    The evidence of a share is the restricted likelihood of a ridge regression of the labels on the
    codes that inputs alone would have under it, in closed form by their singular values.

    The setting of the thesis is `alpha` and `reconstruction_weight` as numbers, `scale=False` and
    `readout="components"`.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexFactorClassifier
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [-1.0, -2.0], [-2.0, -4.0], [3.0, 6.1], [-3.0, -6.0]])
    >>> model = ConvexFactorClassifier().fit(X, ["up", "", "down", "", "", ""])
    >>> model.transduction_
    array(['up', 'up', 'down', 'down', 'up', 'down'], dtype='<U4')
    """

    _judge = staticmethod(ridge_readout)

    alpha_share: float | str = "auto"
    reconstruction_weight: float | str = "auto"
    loss: Any = "logistic"
    reconstruction_loss: Any = "squared"
    bounds: tuple[float, float] = (1.0, 1.0)
    _: KW_ONLY
    alpha: Any = None
    scale: bool = True
    readout: str = "regression"
    fit_intercept: bool = True
    unlabeled: Any = None
    rule: str = "min"
    sparse_zeros: str = "observed"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some have a label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN marks a missing entry.
        y : array-like of shape (n_samples,)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read_labels(self, y: Any, X: Array) -> Labels:
        labels = encode_labels(labels_of_rows(y, X, self), self.unlabeled)
        if len(labels.classes) < 2:
            found = "no label"
            if len(labels.classes):
                found = f"1 class, {labels.classes.tolist()[0]!r}"
            raise ValueError(
                f"A classifier needs labels of at least two classes, and y holds {found}. Label "
                "rows of two classes or more."
            )
        self.classes_ = labels.classes
        return labels

    def _label_columns(self, labels: Labels) -> Array:
        """Return columns in the coding of the loss: one for two classes, else one for each."""
        loss = self._losses[1]
        columns = labels.one_hot()
        if not loss.rowwise:
            if columns.shape[1] == 2:
                columns = columns[:, 1:]
            if loss.legal(np.array([-1.0]))[0]:
                columns = 2 * columns - 1
        columns[~labels.labeled] = np.nan
        return columns

    def _fitted_readout(self, features: Array, inputs: LabelInputs) -> LogisticReadout:
        used = inputs.labels.labeled & (inputs.weights > 0)
        return logistic_readout(features[used], inputs.labels.codes[used], inputs.weights[used])

    def _is_constant(self, values: Array) -> bool:
        return len(np.unique(most_likely(values))) == 1

    def _transduced(self, values: Array, labels: Labels) -> Array:
        predicted = most_likely(values)
        return labels.classes[np.where(labels.labeled, labels.codes, predicted)]

    def decision_function(self, X: Any) -> Array:
        """Return the predictors of the label columns.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        values = self._values(self.transform(X))
        if values.shape[1] == 1:
            return values[:, 0]
        return values

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self._values(self.transform(X))
        return self.classes_[most_likely(values)]

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class; one against the rest is scaled to sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        values = self._values(self.transform(X))
        if self._readout is not None:
            return softmax(both_classes(values), axis=1)
        if isinstance(self._losses[1], Softmax):
            return softmax(values, axis=1)
        p = expit(values)
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(p.dtype).tiny)


@parametrized
class ConvexFactorRegressor(MultiOutputMixin, RegressorMixin, ConvexFactorEstimator):
    r"""min over Z, b of L(Zy + b; y)/T_l + w/(n d) L(Zx; X) + alpha |||[Zx, Zy]|||.

    As `ConvexFactorClassifier`, with the two-view norm |||.|||, but with numbers for targets: T_l
    is the number of rows with a known target. Targets are predicted by ridge regression on the
    codes that inputs alone give a row, its strength by evidence; they are fitted in units of their
    deviation.

    Parameters
    ----------
    alpha_share : float or "auto", default="auto"
    reconstruction_weight : float or "auto", default="auto"
    loss : str or Loss, default="squared"
        Of the targets.
    reconstruction_loss : str or Loss, default="squared"
    bounds : pair of float, default=(1.0, 1.0)
    alpha : float or "auto", optional
    scale : bool, default=True
    readout : {"regression", "components"}, default="regression"
        Targets under a loss with a link, as "poisson", are always predicted by the components.
    fit_intercept : bool, default=True
    rule, sparse_zeros, max_iter, tol, time_limit, verbose, random_state, callback
        As in `ConvexFactorClassifier`, with all other parameters.

    Attributes
    ----------
    codes_, components_, label_components_, label_intercept_, view_weight_ : ndarray
        As in `ConvexFactorClassifier`.
    transduction_ : ndarray of the shape of y
        The targets of every training row; given ones are kept.
    alpha_, alpha_max_, objective_, gap_, relative_gap_ : float
    certificate_ : Certificate

    See Also
    --------
    ConvexFactorClassifier : The same model with classes for labels.
    SNFRegressor : Latent rows that reconstruct inputs and targets nonlinearly, found locally.
    ReverseRegressor : Reconstructs inputs from targets instead of from shared codes.

    Notes
    -----
    Components are bounded in both views, so that with `scale=False` and `readout="components"` a
    target larger than the inputs that predict it costs codes of its own and is followed less.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexFactorRegressor
    >>> x = np.linspace(-3, 3, 13)
    >>> y = np.where(np.arange(13) % 2, 2 * x, np.nan)
    >>> model = ConvexFactorRegressor().fit(np.column_stack([x, -2 * x]), y)
    >>> model.predict([[1.0, -2.0], [2.0, -4.0]]).round(1)
    array([2., 4.])
    """

    _judge = staticmethod(column_readouts)

    alpha_share: float | str = "auto"
    reconstruction_weight: float | str = "auto"
    loss: Any = "squared"
    reconstruction_loss: Any = "squared"
    bounds: tuple[float, float] = (1.0, 1.0)
    _: KW_ONLY
    alpha: Any = None
    scale: bool = True
    readout: str = "regression"
    fit_intercept: bool = True
    rule: str = "min"
    sparse_zeros: str = "observed"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN marks a missing entry.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is missing.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read_labels(self, y: Any, X: Array) -> Targets:
        targets = Targets.of(y, X)
        self._flat = targets.flat
        return targets

    def _label_columns(self, labels: Targets) -> Array:
        return labels.table

    def _fitted_readout(self, features: Array, inputs: LabelInputs) -> RidgeReadout | None:
        if not self._losses[1].of_residual:
            return None
        counted = inputs.counted
        targets = inputs.labels.table[counted]
        return column_readouts(features[counted], targets, inputs.weights[counted])

    def _is_constant(self, values: Array) -> bool:
        return bool(np.any(np.ptp(values, axis=0) == 0))

    def _transduced(self, values: Array, labels: Targets) -> Array:
        predicted = self._losses[1].predict(values)
        return labels.completed(predicted, self.codes_.dtype)

    def predict(self, X: Any) -> Array:
        """Return the targets of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        values = self._values(self.transform(X))
        found = self._losses[1].predict(values)
        if self._flat:
            return found[:, 0]
        return found
