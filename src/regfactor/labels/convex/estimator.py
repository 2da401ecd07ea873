"""Labels as a second view of the inputs, at the global optimum (thesis, proposition 9)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from regfactor.core.params import Array
from regfactor.fitting.labels import Labels, encode_labels, labels_of_rows, most_likely
from regfactor.fitting.targets import Targets
from regfactor.labels.convex.base import ConvexFactorEstimator
from regfactor.losses import Logistic, Softmax, as_loss


def _gives_probabilities(estimator: Any) -> bool:
    if isinstance(as_loss(estimator.loss), Logistic | Softmax):
        return True
    raise AttributeError(
        f"loss={estimator.loss!r} has no probabilities; use 'logistic' or 'softmax'."
    )


class ConvexFactorClassifier(ClassifierMixin, ConvexFactorEstimator):
    r"""min over Z, b of L(Zy + b; y)/T_l + w/(n d) L(Zx; X) + alpha |||[Zx, Zy]|||.

    Inputs and labels are two views of the same rows under shared codes: Zx = codes @ components
    reconstructs all n rows of d inputs, Zy = codes @ label components predicts the labels of the
    T_l labeled ones. The two-view norm |||.||| is the least sum of lengths of codes with components
    of length at most b1 and label components of length at most b2. It is convex: the fit is global,
    with a duality gap. New rows are scored by their inputs. Two classes are one column of labels;
    more are one column each against the rest, or jointly under "softmax".

    Parameters
    ----------
    alpha : float or "auto", default=0.02
        Strength of the norm. "auto" tries 20 strengths from `alpha_max_` down to a thousandth, and
        takes the one that predicts the held-out labels of a random tenth of the labeled rows best.
    reconstruction_weight : float, default=1.0
        w > 0: weight of reconstructing the inputs relative to predicting the labels.
    loss : str or Loss, default="logistic"
        Of the labels: "logistic", "softmax", "squared", "smoothed_hinge", "squared_hinge", "hinge",
        ...
    reconstruction_loss : str or Loss, default="squared"
        Of the inputs.
    bounds : pair of float, default=(1.0, 1.0)
        b1 and b2; raise b2 where labels are not followed (see Notes).
    fit_intercept : bool, default=True
        Whether the label columns have unpenalized offsets. Inputs have none: center them.
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
    label_components_ : ndarray of shape (n_atoms, n_label_columns)
    label_intercept_ : ndarray of shape (n_label_columns,)
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
    by codes of their own, and the others learn little, however small the gap. A weaker alpha makes
    that worse; raise the second bound, to 3 or 10. On labels of `make_low_rank_labels` this is
    worth up to ten points of accuracy on unlabeled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexFactorClassifier
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [-1.0, -2.0], [-2.0, -4.0], [3.0, 6.1], [-3.0, -6.0]])
    >>> model = ConvexFactorClassifier().fit(X, ["up", "", "down", "", "", ""])
    >>> model.transduction_
    array(['up', 'up', 'down', 'down', 'up', 'down'], dtype='<U4')
    """

    def __init__(
        self,
        alpha: Any = 0.02,
        reconstruction_weight: float = 1.0,
        loss: Any = "logistic",
        reconstruction_loss: Any = "squared",
        bounds: tuple[float, float] = (1.0, 1.0),
        *,
        fit_intercept: bool = True,
        unlabeled: Any = None,
        rule: str = "min",
        sparse_zeros: str = "observed",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.alpha = alpha
        self.reconstruction_weight = reconstruction_weight
        self.loss = loss
        self.reconstruction_loss = reconstruction_loss
        self.bounds = bounds
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.rule = rule
        self.sparse_zeros = sparse_zeros
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

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
            raise ValueError(
                "A classifier needs labels of at least two classes, "
                f"got {len(labels.classes)} class."
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

    def _transduced(self, labels: Labels) -> Array:
        predicted = most_likely(self._values(self.codes_))
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
        if isinstance(self._losses[1], Softmax):
            return softmax(values, axis=1)
        p = expit(values)
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(p.dtype).tiny)


class ConvexFactorRegressor(MultiOutputMixin, RegressorMixin, ConvexFactorEstimator):
    r"""min over Z, b of L(Zy + b; y)/T_l + w/(n d) L(Zx; X) + alpha |||[Zx, Zy]|||.

    As `ConvexFactorClassifier`, with the two-view norm |||.|||, but with numbers for targets: T_l
    is the number of rows with a known target. Targets are fitted as they are; the bounds and alpha
    are in their units, so standardize them when in doubt.

    Parameters
    ----------
    alpha : float or "auto", default=0.02
    reconstruction_weight : float, default=1.0
    loss : str or Loss, default="squared"
        Of the targets.
    reconstruction_loss : str or Loss, default="squared"
    bounds : pair of float, default=(1.0, 1.0)
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
    Components are bounded in both views, so that a target larger than the inputs that predict
    it costs codes of its own and is followed less: scale targets down, or raise the second bound by
    as much.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexFactorRegressor
    >>> X = np.array([[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0], [-2.0, -4.0]])
    >>> ConvexFactorRegressor(alpha=1e-4).fit(X, [2.0, np.nan, -2.0, np.nan]).transduction_.round(1)
    array([ 2.,  4., -2., -4.])
    """

    def __init__(
        self,
        alpha: Any = 0.02,
        reconstruction_weight: float = 1.0,
        loss: Any = "squared",
        reconstruction_loss: Any = "squared",
        bounds: tuple[float, float] = (1.0, 1.0),
        *,
        fit_intercept: bool = True,
        rule: str = "min",
        sparse_zeros: str = "observed",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.alpha = alpha
        self.reconstruction_weight = reconstruction_weight
        self.loss = loss
        self.reconstruction_loss = reconstruction_loss
        self.bounds = bounds
        self.fit_intercept = fit_intercept
        self.rule = rule
        self.sparse_zeros = sparse_zeros
        self.max_iter = max_iter
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

    def _transduced(self, labels: Targets) -> Array:
        predicted = self._losses[1].predict(self._values(self.codes_))
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # at the papers' alpha the norm shrinks what little ten inputs share
        tags.regressor_tags.poor_score = True
        return tags
