"""Classification with few labels by a pool of models, weighed by held-out labels and averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import Array, as_floats, frozen, is_option, nearest, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.conformal import (
    adaptive_scores,
    adaptive_sets,
    conformal_quantile,
    too_few_labels_message,
)
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.inputs import (
    check_outlying_entries,
    validated,
    weights_of_all_rows,
)
from regfactor.fitting.labels import distinct_classes, encode_labels, labels_of_rows, soft_labels
from regfactor.fitting.parameters import NON_NEGATIVE, NumberInterval, check_level, parametrized
from regfactor.fitting.pool_estimator import PoolEstimator
from regfactor.labels.semi_supervised.common_units import CommonUnitsMember
from regfactor.labels.semi_supervised.coordinates import Coordinates
from regfactor.labels.semi_supervised.forward import KernelMember, LogisticMember
from regfactor.labels.semi_supervised.gaussian_classes import (
    OwnMember,
    SharedMember,
    SphereMember,
)
from regfactor.labels.semi_supervised.graph import GraphMember
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember
from regfactor.labels.semi_supervised.scikit_learn import ClassifierMember
from regfactor.labels.semi_supervised.stacking import ShareCorrection, Stack, share_ratio, stacked
from regfactor.problems.pool import Pool

MEMBERS: dict[str, type[ClassMember]] = {
    member.name: member
    for member in (
        LogisticMember,
        KernelMember,
        GraphMember,
        SphereMember,
        SharedMember,
        OwnMember,
    )
}
# whose energies depend on the units of columns; those of the others hardly do
SCALED_MEMBERS = (LogisticMember, KernelMember, GraphMember, SphereMember)
SAME_DEVIATION = 1.1  # ratio of deviations up to which columns are standardized already
MAX_UNLABELED_ROWS = 4000  # to which members are fitted; others are new rows to them
MAX_LABELED_ROWS = 3000
BLOCK_ROWS = 4096  # rows that are predicted at once
TRUST_IN_LABELS = 6.0  # in the class shares of the labels, when members are weighed
TRUST_IN_UNKNOWN = 2.0  # where the shares of labels may differ from those of all rows
LARGEST_SHARE_RATIO = 3.0  # between predicted class shares, for labels that are equally many
SMALLEST_WEIGHT = 1e-30  # that the heaviest row may have; products stay in single precision
LARGEST_WEIGHT = 1e30


@frozen
class ClassPool(Pool[FittedMember]):
    """The pool, and the labels by which its members are weighed."""

    data: LabeledRows
    class_shares: Array | None
    trust: float
    correction: ShareCorrection

    def stack(self, fitted: Sequence[FittedMember]) -> Stack:
        """Return the weights of fitted members."""
        return stacked(fitted, self.data, self.class_shares, self.trust, self.correction)

    def loss(self, fitted: Sequence[FittedMember]) -> float:
        """Return minus the mean log-likelihood of the labels that the members did not see."""
        return self.stack(fitted).loss


@frozen
class PoolInputs:
    """What was read: all rows, their labels, and the rows to which members are fitted."""

    X: Any
    shares: Array  # of all rows
    classes: Array
    coordinates: Coordinates
    core: Array  # positions of the rows to which members are fitted
    data: LabeledRows  # those rows


@parametrized
class SemiSupervisedClassifier(ClassifierMixin, PoolEstimator):
    r"""p(class | x) ~ (sum over members m of w_m softmax(beta_m E_m(x)))^g s^h by held-out labels.

    E_m are the energies of simple models of three families: forward ones predict the class from the
    row (a linear and a kernel model), a graph model spreads labels to neighbors, and reverse ones
    predict the row from the class (Gaussian classes with a common variance, a common covariance and
    their own, to which unlabeled rows contribute by EM). Which is right depends on the data. Each
    is fitted without each fold of the labels too; the labels that it did not see choose its inverse
    temperature beta_m and its weight w_m, and the powers g of the average and h of s, the class
    shares of the labels. Members whose predicted class shares contradict those lose weight.

    Parameters
    ----------
    members : "auto" or list, default="auto"
        "auto" are all members of the library. A list holds their names ("logistic", "kernel",
        "graph", "sphere", "shared", "own", or "auto" for all of them) and pairs (name, classifier)
        of any classifiers with the interface of scikit-learn, which are fitted to the labeled rows
        and judged by the same held-out labels.
    scale : bool or "auto", default=True
        True divides columns by their deviation, over all rows, so that their units do not matter.
        False divides all by one number, for columns of common units, as pixels. With "auto" there
        are members of both kinds, and held-out labels weigh them.
    n_folds : int, default=5
        Folds of the labels.
    class_shares : {"labels", "unknown"} or array-like of shape (n_classes,), default="labels"
        Shares of the classes among all rows. "labels": about those of the labels. "unknown":
        labels were drawn by class. Or the shares, in the order of the sorted classes; they then
        correct the probabilities, which are learned at the shares of the labels.
    classes : array-like, optional
        All classes; one without a label is an error. By default those of y.
    unlabeled : optional
        What marks unlabeled rows in y, where it is not -1, NaN, None or "".
    time_limit : float, optional
        Seconds; members that are not fitted in time are left out, with a warning.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Chooses rows to which members are fitted, where there are more than 4000 unlabeled ones.
    callback : callable, optional
        Called after the fit of each member; the pool is complete when it returns a true value.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row, given ones kept.
    transduction_proba_ : ndarray of shape (n_samples, n_classes)
        Probabilities of every training row; labeled rows have their label.
    members_ : list of str
        Names of the members.
    weights_ : ndarray of shape (n_members,)
        w, with sum one.
    temperatures_ : ndarray of shape (n_members,)
        beta.
    sharpness_ : float
        g.
    share_power_ : float
        h; zero where labels are equally many for each class, or `class_shares` is "unknown". One
        where they are given: s is then their ratio to the shares of the labels.
    scores_ : ndarray of shape (n_members,)
        Mean log-likelihood of the labels that each member did not see.
    class_shares_ : ndarray of shape (n_classes,)
        The shares that members were compared with.
    n_features_in_ : int
    objective_ : float
        Minus the mean log-likelihood of the held-out labels by the average.
    status_, solver_, n_iter_, history_
        How the run went; an iteration is the fit of a member.

    See Also
    --------
    SemiSupervisedRegressor : The same for targets.
    ReverseClassifier : Reverse prediction alone, with other divergences.
    regfactor.model_selection.compare_with_supervised : Whether unlabeled rows help.

    Notes
    -----
    A model that is right about the data is among the members or it is not: where classes are
    neither separated by planes, nor clusters, nor connected by neighbors, add a classifier that
    suits the data to `members`. With more than some hundred labels for each class a supervised
    model will do as well.

    Members are fitted to at most 4000 unlabeled and 3000 labeled rows; all others are predicted as
    new rows. Missing entries are filled by a low-rank model of all rows, those of sparse tables by
    the mean of their column. Sparse rows are given by their first 200 principal directions and
    never made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from regfactor import SemiSupervisedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> few = np.full(len(y), -1)
    >>> few[::15] = y[::15]
    >>> model = SemiSupervisedClassifier().fit(X, few)
    >>> print(f"{(model.transduction_ == y).mean():.2f}")
    0.91
    """

    _no_certificate = "a pool is averaged by held-out labels, and the model"
    _takes_missing = True
    _takes_sparse = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "members": [StrOptions({"auto"}), list, tuple],
        "scale": ["boolean", StrOptions({"auto"})],
        "n_folds": [NumberInterval(Integral, 2, None, closed="left")],
        "class_shares": [StrOptions({"labels", "unknown"}), "array-like"],
        "classes": ["array-like", None],
        "time_limit": [NON_NEGATIVE, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callback": [callable, None],
    }

    members: Any = "auto"
    scale: Any = True
    n_folds: int = 5
    _: KW_ONLY
    class_shares: Any = "labels"
    classes: Any = None
    unlabeled: Any = None
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit and weigh the members, and label all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where an entry is missing; absent entries of a sparse table are zeros.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is not known.
            A matrix holds soft labels: the shares of the classes, in the order of `classes`, and
            zeros or NaN in rows without a label.
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts of labels and rows; a row of weight zero is predicted
            as a new one.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> PoolInputs:
        X = self._as_inputs(X, reset=True)
        classes, shares = self._read_labels(X, y)
        weights = weights_of_all_rows(X, sample_weight)
        if not SMALLEST_WEIGHT <= weights.max() <= LARGEST_WEIGHT:
            raise ValueError(
                f"The largest sample_weight is {weights.max():.3g}; weights act as repetition "
                "counts, so scale them to about one."
            )
        check_outlying_entries(X, weights, getattr(self, "feature_names_in_", None))
        labeled = shares.any(axis=1) & (weights > 0)
        counts = (shares[labeled] > 0).sum(axis=0)
        _check_classes(classes, counts)
        random = check_random_state(self.random_state)
        unlabeled = np.flatnonzero(~labeled & (weights > 0))
        some = unlabeled
        if len(unlabeled) > MAX_UNLABELED_ROWS:
            some = random.choice(unlabeled, MAX_UNLABELED_ROWS, replace=False)
        known = _spread_over_classes(np.flatnonzero(labeled), shares, MAX_LABELED_ROWS)
        core = np.sort(np.concatenate([known, some]))
        used = np.flatnonzero(weights > 0)
        coordinates = Coordinates.fit(X[used], weights[used], bool(self.scale))
        data = LabeledRows(
            coordinates.of(X[core]),
            shares[core],
            weights[core],
            len(unlabeled) / max(len(some), 1),
            self.n_folds,
        )
        return PoolInputs(X, shares, classes, coordinates, core, data)

    def _as_inputs(self, X: Any, reset: bool) -> Any:
        """Return rows as floats, dense or CSR, NaN where entries are missing."""
        return validated(
            self,
            X,
            accept_sparse="csr",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
            dtype=np.float64,
            reset=reset,
            every_column=True,
        )

    def _read_labels(self, X: Any, y: Any) -> tuple[Array, Array]:
        """Return the classes, and the shares of each class in each row's label."""
        given = np.asarray(y)
        if given.ndim == 2 and given.shape[1] > 1:
            return _soft_labels(y, X.shape[0], self.classes)
        labels = encode_labels(labels_of_rows(y, X, self), self.unlabeled, self.classes)
        return labels.classes, labels.one_hot()

    def _state(self, inputs: PoolInputs) -> ClassPool:
        data = inputs.data
        trust = TRUST_IN_LABELS
        if is_option(self.class_shares, "unknown"):
            trust = TRUST_IN_UNKNOWN
        class_shares: Array | None
        correction = ShareCorrection.none(data.n_classes)
        if is_option(self.class_shares, "labels"):
            correction = ShareCorrection.of_labels(data)
        if isinstance(self.class_shares, str):
            class_shares = (data.class_counts + 1) / (data.class_counts.sum() + data.n_classes)
        else:
            class_shares = _given_shares(self.class_shares, data.n_classes)
            correction = ShareCorrection.known(data, class_shares)
        if len(data.labeled) == len(data.rows):
            class_shares = None
        members = self._members(inputs)
        return ClassPool(members, data, class_shares, trust, correction)

    def _members(self, inputs: PoolInputs) -> list[ClassMember]:
        """Return the members that the parameter names, with the rows."""
        if isinstance(self.members, str):
            named = ["auto"]
        else:
            named = self.members
        members: list[ClassMember] = []
        for item in named:
            if isinstance(item, str):
                names = list(MEMBERS) if item == "auto" else [item]
                for name in names:
                    members.append(_member_class(name)(inputs.data))
                if item == "auto":
                    members.extend(self._members_in_common_units(inputs))
            else:
                name, classifier = _named_classifier(item)
                given = inputs.X[inputs.core]
                members.append(
                    ClassifierMember(inputs.data, name, classifier, given, inputs.classes)
                )
        return members

    def _members_in_common_units(self, inputs: PoolInputs) -> list[ClassMember]:
        """Return members that see columns which are not standardized, where that differs."""
        if not is_option(self.scale, "auto") or inputs.coordinates.directions is not None:
            return []
        deviations = 1.0 / inputs.coordinates.factor
        if deviations.max() <= SAME_DEVIATION * deviations.min():
            return []
        factors = deviations / np.sqrt(np.mean(np.square(deviations)))
        return [CommonUnitsMember(inputs.data, kind, factors) for kind in SCALED_MEMBERS]

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: PoolInputs,
        run: Run,
    ) -> Solution[Any]:
        pool: ClassPool = choice.problem
        fitted: Sequence[FittedMember] = solution.point
        stack = pool.stack(fitted)
        self.classes_ = inputs.classes
        self.members_ = [member.name for member in fitted]
        self.weights_ = stack.weights
        self.temperatures_ = stack.temperatures
        self.sharpness_ = stack.sharpness
        self.share_power_ = stack.share_power
        self.scores_ = stack.scores
        self.class_shares_ = pool.class_shares
        self._coordinates = inputs.coordinates
        self._models: list[ClassModel] = [member.model for member in fitted]
        self._assumptions = [member.assumes for member in fitted]
        self._stack = stack
        held_out = pool.data.folds >= 0
        # a soft label is an entry for each class with a share, which is its weight
        shares = pool.data.label_shares[held_out]
        places, codes = np.nonzero(shares)
        self._held_out_proba = stack.held_out[held_out][places]
        self._held_out_codes = codes
        self._held_out_weights = pool.data.label_weights[held_out][places] * shares[places, codes]
        if pool.correction.power:
            # labels count as often as rows of their class do, which the user knows
            n_held_out = self._held_out_weights.sum()
            self._held_out_weights *= np.exp(stack.log_shares[codes])
            self._held_out_weights *= n_held_out / self._held_out_weights.sum()
        self.transduction_proba_ = self._transduced(fitted, inputs)
        self.transduction_ = self.classes_[self.transduction_proba_.argmax(axis=1)]
        self._changed_share = _changed_share(
            fitted,
            stack,
            pool.data,
            self.transduction_proba_[inputs.core],
        )
        believed = is_option(self.class_shares, "labels")
        _warn_of_labels(pool, self.transduction_proba_, believed)
        return solution

    def _transduced(self, fitted: Sequence[FittedMember], inputs: PoolInputs) -> Array:
        """Return the probabilities of all rows; labeled ones have their label."""
        found = np.empty(inputs.shares.shape)
        found[inputs.core] = self._stack.probabilities([member.energies for member in fitted])
        others = np.setdiff1d(np.arange(len(found)), inputs.core)
        if len(others):
            found[others] = self._probabilities(inputs.X[others])
        labeled = inputs.shares.any(axis=1)
        found[labeled] = inputs.shares[labeled]
        return found

    def _probabilities(self, X: Any) -> Array:
        """Return the probabilities of new rows, block by block."""
        blocks = []
        for start in range(0, X.shape[0], BLOCK_ROWS):
            given = X[start : start + BLOCK_ROWS]
            rows = self._coordinates.of(given)
            energies = [
                model.energies(given if model.takes_given_rows else rows) for model in self._models
            ]
            blocks.append(self._stack.probabilities(energies))
        return np.concatenate(blocks)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._probabilities(self._as_inputs(X, reset=False))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_set(self, X: Any, level: float = 0.9) -> Array:
        """Return sets of classes that hold the class of a row with probability `level`.

        Classes are added in the order of their probability up to a mass at which sets covered the
        held-out labels. The level holds, on average, for rows that are like the labeled ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9

        Returns
        -------
        bool ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        check_level(level)
        n_held_out = float(self._held_out_weights.sum())
        message = too_few_labels_message(f"A {level:.0%} prediction set", n_held_out, level)
        if message:
            raise ValueError(message)
        scores = adaptive_scores(self._held_out_proba, self._held_out_codes)
        quantile = conformal_quantile(scores, level, self._held_out_weights)
        return adaptive_sets(self.predict_proba(X), quantile)

    def explain(self) -> Explanation:
        """Return which members carried the result, and whether unlabeled rows changed it.

        Returns
        -------
        Explanation
            A table (member, weight, score, what it assumes) and sentences; `print` shows both.
        """
        check_is_fitted(self)
        reports = [
            MemberReport(name, float(weight), float(score), assumes)
            for name, weight, score, assumes in zip(
                self.members_,
                self.weights_,
                self.scores_,
                self._assumptions,
                strict=True,
            )
        ]
        first = max(reports, key=lambda report: report.weight)
        sentences = [
            f"{first.member} carries most ({first.weight:.0%}): {first.assumes}.",
            _effect_of_unlabeled_rows(self._changed_share),
        ]
        name = "mean log-likelihood of the labels that a member did not see; larger is better"
        return Explanation.of(reports, name, sentences)


def _soft_labels(y: Any, n_rows: int, classes: Any) -> tuple[Array, Array]:
    """Return the classes and shares of a matrix of soft labels."""
    shares = soft_labels(y)
    if len(shares) != n_rows:
        raise ValueError(f"y has {len(shares)} rows of soft labels and X {n_rows} rows.")
    if classes is None:
        names = np.arange(shares.shape[1])
    else:
        names = distinct_classes(classes)
    if len(names) != shares.shape[1]:
        raise ValueError(f"y has {shares.shape[1]} columns of shares and classes {len(names)}.")
    return names, shares


def _check_classes(classes: Array, counts: Array) -> None:
    """Raise unless at least two classes, and all that are named, have a label."""
    missing = []
    if len(classes):
        missing = classes[counts == 0].tolist()
    if np.count_nonzero(counts) < 2:
        found = "no label"
        if counts.any():
            found = f"1 class, {classes[counts > 0].tolist()[0]!r}"
        raise ValueError(
            f"At least two classes need a label of positive weight, and y holds {found}. Label "
            "rows of two classes or more."
        )
    if missing:
        raise ValueError(
            f"Classes {missing} have no labeled row of positive weight: label a row of each, or "
            "leave them out of classes. ReverseClassifier finds classes without a label."
        )


def _spread_over_classes(labeled: Array, shares: Array, limit: int) -> Array:
    """Return at most `limit` labeled rows, the same fraction of each class."""
    if len(labeled) <= limit:
        return labeled
    warn(
        f"{limit} of {len(labeled)} labels are used, the same fraction of each class. With so many "
        "labels a supervised model will do as well."
    )
    codes = shares[labeled].argmax(axis=1)
    order = np.argsort(codes, kind="stable")
    chosen = np.linspace(0, len(order) - 1, limit).astype(int)
    # the first label that gives a class its largest share is always among them
    firsts = shares[labeled].argmax(axis=0)
    return labeled[np.union1d(order[chosen], firsts)]


def _given_shares(class_shares: Any, n_classes: int) -> Array:
    """Return shares of classes that a user knows."""
    shares = as_floats(class_shares, "class_shares")
    if shares.shape != (n_classes,) or not np.all(shares >= 0) or not 0 < shares.sum() < np.inf:
        raise ValueError(
            f"class_shares must hold a share >= 0 for each of {n_classes} classes, got "
            f"{class_shares!r}."
        )
    return shares / shares.sum()


def _member_class(name: str) -> type[ClassMember]:
    """Return a member of the library."""
    if name not in MEMBERS:
        hint = nearest(name, MEMBERS)
        meant = f" Did you mean {hint!r}?" if hint else ""
        raise ValueError(
            f"members names {name!r}; the library has {', '.join(map(repr, MEMBERS))}.{meant} "
            "Another classifier is given as a pair (name, classifier)."
        )
    return MEMBERS[name]


def _named_classifier(item: Any) -> tuple[str, Any]:
    """Return the name and the classifier of a pair."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        name, classifier = item
        has_scores = hasattr(classifier, "predict_proba") or hasattr(
            classifier,
            "decision_function",
        )
        if hasattr(classifier, "fit") and has_scores:
            return name, classifier
        raise ValueError(
            f"The member {name!r} is {classifier!r}; a classifier with fit and with predict_proba "
            "or decision_function is needed."
        )
    raise ValueError(
        f"members holds {item!r}; give names of members of the library, or pairs (name, "
        "classifier)."
    )


def _changed_share(
    fitted: Sequence[FittedMember],
    stack: Stack,
    data: LabeledRows,
    probabilities: Array,
) -> float | None:
    """Return the share of unlabeled rows that members without unlabeled rows label otherwise."""
    unlabeled = data.unlabeled
    supervised = np.array([not member.uses_unlabeled for member in fitted])
    if not len(unlabeled) or not supervised.any():
        return None
    energies = [member.energies[unlabeled] for member in fitted]
    together = probabilities[unlabeled].argmax(axis=1)
    alone = stack.restricted(supervised).probabilities(energies).argmax(axis=1)
    return float(np.average(together != alone, weights=data.weights[unlabeled]))


def _effect_of_unlabeled_rows(changed: float | None) -> str:
    """Return a sentence on the share of labels that unlabeled rows changed, None if unknown."""
    if changed is None:
        return (
            "Whether unlabeled rows changed the result is unknown: there are none, or no member "
            "does without them."
        )
    if changed == 0:
        return "Unlabeled rows changed no label: members that do not use them agree."
    return (
        f"Unlabeled rows changed {changed:.1%} of the labels, compared with the members that do "
        "not use them."
    )


def _warn_of_labels(pool: ClassPool, probabilities: Array, believed: bool) -> None:
    """Warn where labels cannot weigh the members, or do not tell the shares of the classes."""
    data = pool.data
    if (data.folds < 0).all():
        warn(
            "Every class has one label, so none can be held out: all members count alike, and "
            "probabilities are not calibrated. Label a second row of some classes."
        )
        return
    if pool.class_shares is None:
        return
    counts = data.class_counts
    equal = np.all(counts == counts[0])
    if believed and equal and share_ratio(probabilities) > LARGEST_SHARE_RATIO:
        warn(
            "The labels are equally many for each class, the predicted classes are not. If labels "
            "were drawn by class, set class_shares to the shares that you know, or to 'unknown'."
        )
