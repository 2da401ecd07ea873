"""Clusters by the transformation and family of densities that the data support best."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import DensityMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.aligned_average import aligned_orders, tempered_weights
from regfactor.clusters.mixture_members import (
    FAMILY_NEEDS,
    FittedMixture,
    MixtureDensity,
    MixtureMember,
    MixturePoint,
    MixturePool,
    MixtureRows,
    densities,
)
from regfactor.clusters.mixture_screening import (
    NumberChoice,
    choose_number,
    finalists,
    screen,
    screened_rows,
)
from regfactor.clusters.table_kinds import Encoding, TableKind, TableLayout
from regfactor.clusters.transformations import weighted_mean
from regfactor.core.loop import Solution
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.clustering import (
    ClusterEstimator,
    check_enough,
    count_distinct,
    warn_of_empty,
)
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.gross_errors import GrossErrors, warn_of_gross_errors
from regfactor.fitting.inputs import weights_of_all_rows
from regfactor.fitting.parameters import AUTO, COUNT, NON_NEGATIVE, parametrized

SAME_SCORE = 1e-4  # nats per entry, below which members are as good as each other


@frozen
class Cleaning:
    """What is done to encoded rows before any transformation.

    Attributes
    ----------
    layout : Layout
    gross_errors : GrossErrors or None
        None for a table without numbers, or of mostly zeros.
    """

    layout: TableLayout
    gross_errors: GrossErrors | None

    @staticmethod
    def of(X: Array, layout: TableLayout) -> Cleaning:
        """Return the cleaning of a table."""
        if not len(layout.numbers) or layout.kind is TableKind.SPARSE:
            return Cleaning(layout, None)
        return Cleaning(layout, GrossErrors.fit(X[:, layout.numbers]))

    def find(self, X: Array) -> Array:
        """Return a mask of gross errors among the numbers."""
        numbers = X[:, self.layout.numbers]
        if self.gross_errors is None:
            return np.zeros(numbers.shape, dtype=bool)
        return self.gross_errors.find(numbers)

    def without_errors(self, X: Array) -> Array:
        """Return rows in which gross errors are missing."""
        X = X.copy()
        numbers = X[:, self.layout.numbers]
        X[:, self.layout.numbers] = np.where(self.find(X), np.nan, numbers)
        return X

    def apply(self, X: Array) -> Array:
        """Return rows without gross errors; of mostly zeros, square roots of shares of a row."""
        X = self.without_errors(X)
        if self.layout.kind is TableKind.SPARSE:
            numbers = X[:, self.layout.numbers]
            totals = np.nansum(numbers, axis=1, keepdims=True)
            X[:, self.layout.numbers] = np.sqrt(numbers / np.where(totals > 0, totals, 1.0))
        return X


@frozen
class MixtureInputs:
    """Rows as they were read, and those of positive weight."""

    encoding: Encoding
    cleaning: Cleaning
    X: Array
    weights: Array
    data: MixtureRows


@frozen
class PooledMixture:
    """A member of the average, without the responsibilities of the training rows.

    Attributes
    ----------
    density : MixtureDensity
    point : MixturePoint
    weight : float
    order : array of int of shape (n_clusters,)
        Its cluster for each one of the average.
    """

    density: MixtureDensity
    point: MixturePoint
    weight: float
    order: Array

    def posterior(self, X: Array) -> Array:
        """Return the probability of each cluster of the average for cleaned rows."""
        joint = self.density.joint(self.density.prepare(X), self.point)
        return np.asarray(softmax(joint, axis=1)[:, self.order])

    def cannot_take(self, numbers: Array) -> Array:
        """Return a mask of numbers that the density is not defined for."""
        if self.density.domain == "positive":
            return np.asarray(numbers <= 0)
        if self.density.domain == "not negative":
            return np.asarray(numbers < 0)
        return np.zeros(numbers.shape, dtype=bool)


@frozen
class MixtureSelection:
    """Finalists that screening left, and the choice of the number of clusters."""

    number: NumberChoice | None


@parametrized
class AutoMixture(DensityMixin, ClusterEstimator):
    """max over p, theta of sum_i w_i log sum_j p_j F(x_i; theta_j), for several families F.

    Which clusters a table has depends on what a cluster is taken for: growth doubles sizes, so that
    logarithms are normal; words are counted, and long texts have more of all; lengths of one
    animal are correlated. Members are pairs of a transformation (numbers as they are, logarithms,
    square roots; principal components of more than 40 columns) and a family (normal with one
    or own variances, with one or own covariances; gamma, Poisson, negative binomial, multinomial;
    categories). Each counts in units of the table itself, through the Jacobian of its
    transformation, so that their BIC compare. The probabilities of clusters are averaged over the
    three best members.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        The number of clusters. "auto" raises it from one until BIC has not improved three times,
        and takes the smallest number with 90 % of the best gain over one cluster.
    max_components : int, default=20
        The largest number that "auto" tries.
    family : {"auto", "gaussian", "gamma", "poisson", "negative_binomial", "multinomial"}, \
            default="auto"
        The family of the numbers. "auto" compares all that suit them, "gaussian" all
        transformations with all normal families. Categories have shares in any case.
    time_limit : float, optional
        Seconds; members that are not fitted in time are left out, with a warning.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Of the starts, and of the rows on which members are compared if there are more than 700.
    callback : callable, optional
        Called after the fit of each member; the pool is complete when it returns a true value.

    Attributes
    ----------
    n_components_ : int
    labels_ : ndarray of shape (n_samples,)
        The most probable cluster of each row.
    weights_ : ndarray of shape (n_components_,)
        Shares of the clusters.
    means_ : ndarray of shape (n_components_, n_columns)
        Means of the observed entries in each cluster, weighted by probability, in the units of the
        table; frames of categories have a column for each level (`feature_names`).
    bic_ : float
        -2 log likelihood + parameters * log n of the best member; smaller is better.
    bics_ : dict of int to float
        Of each number of clusters that "auto" tried, on the rows where members are compared.
    member_ : str
        The best transformation and family.
    members_ : list of str
        Members that were fitted to the end and averaged, the best one first.
    member_weights_ : ndarray of shape (n_members,)
        Their weights in the average, in proportion to exp(-bic / (4 * n_samples)).
    scores_ : ndarray of shape (n_members,)
        -bic / (2 * number of entries) of each, of principal components -aic / (2 * entries).
    converged_ : bool
    n_features_in_ : int
    objective_ : float
        Minus the largest score.
    status_, solver_, n_iter_, history_
        How the run went; an iteration is the fit of a member.

    See Also
    --------
    BregmanMixture : A mixture of one family.
    BregmanKMeans : Hard clusters under a divergence.

    Notes
    -----
    Clusters of the members are named so that they agree best with their average. The best family
    differs from others by what none of them has, such as tails: in 246 tables of known classes the
    average agreed with these slightly better than the best member alone. A new row with a number
    that a weaker member cannot take, as a negative one under logarithms, is left to the others.

    Missing entries are no part of the likelihood: families of independent columns sum over observed
    entries, normal ones with covariances take expectations given them. Beyond 40 columns missing
    entries are first completed by a low-rank model. Single entries more than 100 interquartile
    ranges from the median of their column, in rows that are otherwise usual, are taken for gross
    errors and left out, with a warning.

    Own variances are held within a factor 4 of the pooled ones, own covariances within a factor 16
    in every direction, correlations are shrunk, and no direction has less variance than rounding of
    the columns gives it: more flexible families would fit small or rounded clusters by chance.

    A table of more than 40 columns is seen through principal components, of columns as they are
    where their variances compare (effective number of columns more than a tenth), else in units of
    their deviations. Clusters differ in two components for each of them, or in twice, four times,
    ... as many, up to 64, where a cluster has four rows for each component on average. The other
    components are normal and common to all clusters, so that likelihoods compare, and the number is
    chosen like a transformation. If most entries of a table are zero and none is negative, as of
    words in texts, rows are square roots of shares of their totals.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoMixture
    >>> rng = np.random.default_rng(0)
    >>> sizes = np.repeat([1.0, 8.0, 64.0], 50)
    >>> X = sizes[:, None] * rng.lognormal(0, 0.3, (150, 3))
    >>> model = AutoMixture(random_state=0).fit(X)
    >>> model.n_components_
    3
    >>> model.member_
    'logarithms, one variance'
    """

    _takes_missing = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [COUNT, AUTO],
        "max_components": [COUNT],
        "family": [StrOptions({"auto", *FAMILY_NEEDS})],
        "time_limit": [NON_NEGATIVE, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callback": [callable, None],
    }

    n_components: Any = "auto"
    max_components: int = 20
    family: str = "auto"
    _: KW_ONLY
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            NaN where an entry is missing; frames may hold categories, strings and truth values.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any) -> MixtureInputs:
        encoding = Encoding.of(X)
        E = encoding.read(self, X, reset=True)
        weights = weights_of_all_rows(E, sample_weight)
        used = weights > 0
        layout = TableLayout.of(E[used], encoding.is_label)
        cleaning = Cleaning.of(E[used], layout)
        warn_of_gross_errors(cleaning.find(E[used]))
        data = MixtureRows(cleaning.apply(E[used]), weights[used], layout)
        if not is_option(self.n_components, "auto"):
            check_enough(data.X, self.n_components, "n_components")
            distinct = _count_distinct(data)
            if distinct < self.n_components:
                raise ValueError(
                    f"n_components={self.n_components}, and X has only {distinct} distinct rows; "
                    "lower n_components."
                )
        return MixtureInputs(encoding, cleaning, E, weights, data)

    def _state(self, inputs: MixtureInputs) -> MixturePool:
        k = 1
        if not is_option(self.n_components, "auto"):
            k = int(self.n_components)
        found = densities(inputs.data, k, self.family)
        return MixturePool([MixtureMember(density, inputs.data, []) for density in found])

    def _choose(self, problem: Any, inputs: MixtureInputs, run: Run) -> Choice[Any]:
        data = inputs.data
        some = data.subset(screened_rows(data, run.random))
        number = None
        if is_option(self.n_components, "auto"):
            most = max(min(self.max_components, _count_distinct(some) // 2), 1)
            number, candidates = choose_number(some, most, run.random, self.family)
        else:
            candidates = screen(some, int(self.n_components), run.random, self.family)
        return Choice(MixturePool(finalists(candidates, data)), MixtureSelection(number))

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: MixtureInputs,
        run: Run,
    ) -> Solution[Any]:
        fits = sorted(solution.point, key=lambda fit: -fit.score)
        best: FittedMixture = fits[0]
        self._encoding = inputs.encoding
        self._cleaning = inputs.cleaning
        self._pool = _pooled(fits, inputs.data)
        self._reports = [
            _report(fit, member.weight) for fit, member in zip(fits, self._pool, strict=True)
        ]
        self.n_components_ = len(best.point.shares)
        self.weights_ = np.sum([m.weight * m.point.shares[m.order] for m in self._pool], axis=0)
        self.bic_ = best.bic
        self.member_ = best.name
        self.members_ = [fit.name for fit in fits]
        self.member_weights_ = np.array([member.weight for member in self._pool])
        self.scores_ = np.array([fit.score for fit in fits])
        if choice.selection.number is not None:
            self.bics_ = choice.selection.number.bics
        self.converged_ = solution.status.converged
        probabilities = self._posterior(inputs.X)
        self.labels_ = probabilities.argmax(axis=1)
        shares = probabilities * inputs.weights[:, None]
        X = inputs.cleaning.without_errors(inputs.X)
        self.means_ = np.array([weighted_mean(X, column) for column in shares.T])
        if self.n_components_ > 1:
            warn_of_empty(self.labels_, inputs.weights, self.n_components_)
        return solution

    def _posterior(self, E: Array) -> Array:
        """Return probabilities of clusters for encoded rows, by members that can take them."""
        X = self._cleaning.apply(E)
        places = self._cleaning.layout.numbers
        total = np.zeros((len(E), self.n_components_))
        for member in self._pool:
            wrong = member.cannot_take(E[:, places])
            able = X.copy()
            able[:, places] = np.where(wrong, np.nan, X[:, places])
            weights = np.where(wrong.any(axis=1), 0.0, member.weight)
            total += weights[:, None] * member.posterior(able)
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def _read_new(self, X: Any) -> Array:
        check_is_fitted(self)
        E = self._encoding.read(self, X, reset=False)
        self._check_new(E)
        return E

    def _check_new(self, E: Array) -> None:
        """Raise for numbers that the best member cannot take."""
        layout = self._cleaning.layout
        numbers = E[:, layout.numbers]
        domain = self._pool[0].density.domain
        wrong = self._pool[0].cannot_take(numbers)
        bits = E[:, layout.bits]
        odd = (bits != 0) & (bits != 1) & ~np.isnan(bits)
        for columns, mask, need in ((layout.numbers, wrong, domain), (layout.bits, odd, "0 or 1")):
            if mask.any():
                row, at = np.argwhere(mask)[0]
                raise ValueError(
                    f"Column {columns[at]} has {E[row, columns[at]]:g} in row {row}; in fit all "
                    f"its entries were {need}, and '{self.member_}' needs that. Fit on rows that "
                    "have such entries too, or mark them as missing by NaN."
                )

    def score_samples(self, X: Any) -> Array:
        """Return the log density of each row under the best member, in the units of the table.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        rows = self._cleaning.apply(self._read_new(X))
        best = self._pool[0]
        joint = best.density.joint(best.density.prepare(rows), best.point)
        return np.asarray(logsumexp(joint, axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each cluster for each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        return self._posterior(self._read_new(X))

    def predict(self, X: Any) -> Array:
        """Return the most probable cluster of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and return the most probable cluster of each row."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def explain(self) -> Explanation:
        """Return which family and transformation carried the clusters, and why so many.

        Returns
        -------
        Explanation
            Its `str` is a table of the members that were fitted to the end, and plain sentences.
        """
        check_is_fitted(self)
        sentences = [
            f"{self.n_components_} clusters by {self.member_}: {self._pool[0].density.assumes}.",
            f"{self._pool[0].density.compares.capitalize()}.",
        ]
        if len(self.members_) > 1:
            lead = self.scores_[0] - self.scores_[1]
            worse = "is as good" if lead < SAME_SCORE else f"has {lead:.3g} nats per entry less"
            sentences.append(f"The next best, {self.members_[1]}, {worse}.")
            sentences.append(
                f"Probabilities are averaged over these {len(self.members_)} members, of which the "
                f"best has {self.member_weights_[0]:.0%} of the weight."
            )
        if hasattr(self, "bics_"):
            tried = sorted(self.bics_)
            sentences.append(
                f"The number was chosen among {tried[0]} to {tried[-1]}: the smallest with 90 % of "
                "the best gain in BIC over one cluster."
            )
        else:
            sentences.append("The number of clusters was given.")
        return Explanation.of(
            self._reports,
            "-bic / (2 * entries), of principal components -aic; larger is better",
            sentences,
        )


def _count_distinct(data: MixtureRows) -> int:
    """Return the number of rows that differ in a column that counts."""
    used = np.concatenate([data.layout.numbers, data.layout.bits])
    if not len(used):
        return 1
    return count_distinct(data.X[:, used])


def _pooled(fits: list[FittedMixture], data: MixtureRows) -> list[PooledMixture]:
    """Return members with their weights, and the names of clusters that agree best."""
    weights = tempered_weights(fits, data.mass)
    orders = aligned_orders([fit.point.R for fit in fits], weights, data.weights)
    nobody = np.empty((0, len(fits[0].point.shares)))
    return [
        PooledMixture(fit.density, replace(fit.point, R=nobody), float(weight), order)
        for fit, weight, order in zip(fits, weights, orders, strict=True)
    ]


def _report(fit: FittedMixture, weight: float) -> MemberReport:
    """Return a member with its weight in the average."""
    return MemberReport(fit.name, weight, fit.score, fit.density.assumes)
