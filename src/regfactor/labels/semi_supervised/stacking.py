"""Weights of a pool of classifiers, from labels that its members did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import log_softmax, softmax

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import FittedMember

SMALLEST_PROBABILITY = 1e-4
DIRICHLET = 0.3  # prior count of each member
N_WEIGHT_STEPS = 100
WEIGHT_TOL = 1e-4  # change of a weight at which EM ends
SMALLEST_CLASS_SHARE = 0.01
SHARPNESSES = np.exp(np.linspace(-1.0, 1.2, 12))  # powers of the average
SHARPNESS_PRIOR = 5.0  # weight of the squared logarithm of the power in its prior
SHARE_POWERS = np.linspace(-2.0, 3.0, 21)  # of the class shares of the labels
SHARE_POWER_DEVIATION = 0.5  # of their prior around zero


@frozen
class ShareCorrection:
    """Logarithms of ratios of class shares by which an average is multiplied, to some power.

    The power is chosen by held-out labels where it is None.
    """

    log_ratios: Array
    power: float | None

    @staticmethod
    def none(n_classes: int) -> ShareCorrection:
        """Return no correction, as where labels were drawn by class."""
        return ShareCorrection(np.zeros(n_classes), 0.0)

    @staticmethod
    def of_labels(data: LabeledRows) -> ShareCorrection:
        """Return a power of the class shares of labels that were drawn at random."""
        logs = np.log(data.class_counts + 1)
        return ShareCorrection(logs - logs.mean(), None)

    @staticmethod
    def known(data: LabeledRows, class_shares: Array) -> ShareCorrection:
        """Return the ratio of known class shares to those of the labels, which members learned."""
        logs = np.log(np.maximum(class_shares, SMALLEST_PROBABILITY))
        logs -= np.log(data.class_counts + 1)
        return ShareCorrection(logs - logs.mean(), 1.0)


@frozen
class Stack:
    """Temperatures and weights of the members of a pool, in their order.

    An average of probabilities is less sure than it should be where its members agree; the held-out
    labels choose a power of it, the sharpness. Some members, as the graph, do not use that a class
    has few labels; held-out labels choose a power of the class shares too.
    """

    temperatures: Array
    weights: Array
    sharpness: float
    share_power: float
    log_shares: Array
    scores: Array  # mean log-likelihood of the labels that each member did not see
    held_out: Array  # probabilities of the labeled rows by the average
    loss: float

    def probabilities(self, energies: Sequence[Array]) -> Array:
        """Return the average of the members' probabilities, with the powers that labels chose."""
        total = np.zeros_like(energies[0])
        for weight, temperature, of_member in zip(
            self.weights,
            self.temperatures,
            energies,
            strict=True,
        ):
            if weight == 0:
                continue
            total += weight * softmax(temperature * of_member, axis=1)
        return self.adjusted(total)

    def adjusted(self, average: Array) -> Array:
        """Return an average of probabilities to the power of the sharpness, times class shares."""
        found: Array = softmax(self.logs(average), axis=1)
        return found

    def logs(self, average: Array) -> Array:
        """Return the logarithms of adjusted probabilities, up to a number for each row."""
        logs = np.log(np.maximum(average, np.finfo(float).tiny))
        return self.sharpness * logs + self.share_power * self.log_shares

    def restricted(self, kept: Array) -> Stack:
        """Return the average of some members alone."""
        weights = np.where(kept, self.weights, 0.0)
        return replace(self, weights=weights / weights.sum())


def stacked(
    members: Sequence[FittedMember],
    data: LabeledRows,
    class_shares: Array | None,
    trust: float,
    correction: ShareCorrection,
) -> Stack:
    """Return the weights that suit the labels that the members did not see.

    Weights maximize sum_i log sum_m w_m v_im + .3 sum_m log w_m, with v_im the probability of the
    label of row i by member m; then exp(-trust KL) takes weight from members whose predicted
    shares of classes disagree with `class_shares`.
    """
    temperatures = np.array([member.temperature for member in members])
    probabilities = np.array([member.held_out_proba for member in members])
    likelihoods = np.einsum("mic,ic->mi", probabilities, data.label_shares)
    likelihoods += SMALLEST_PROBABILITY
    row_weights = data.label_weights
    scores = np.log(likelihoods) @ row_weights / row_weights.sum()
    weights = likelihood_weights(likelihoods, row_weights)
    if class_shares is not None:
        distances = share_distances(members, class_shares)
        weights = weights * np.exp(-trust * (distances - distances.min()))
        weights /= weights.sum()
    average = np.einsum("m,mic->ic", weights, probabilities)
    sharpness = best_sharpness(average, data)
    log_shares = correction.log_ratios
    stack = Stack(temperatures, weights, sharpness, 0.0, log_shares, scores, average, 0.0)
    if correction.power is None:
        power = mean_share_power(stack, data)
    else:
        power = correction.power
        if power:
            row_weights = row_weights * (data.label_shares @ np.exp(power * log_shares))
    stack = replace(stack, share_power=power)
    held_out = stack.adjusted(average)
    pooled = np.einsum("ic,ic->i", held_out, data.label_shares) + SMALLEST_PROBABILITY
    loss = -float(np.log(pooled) @ row_weights / row_weights.sum())
    return replace(stack, held_out=held_out, loss=loss)


def best_sharpness(average: Array, data: LabeledRows) -> float:
    """Return the power of the average by held-out likelihood, near one; one without such labels."""
    held_out = data.folds >= 0
    if not held_out.any():
        return 1.0
    logs = np.log(average[held_out] + np.finfo(float).tiny)
    weights = data.label_weights[held_out]
    of_labels = weights @ (data.label_shares[held_out] * logs).sum(axis=1)
    sums = np.exp(SHARPNESSES[:, None, None] * logs).sum(axis=2)
    likelihoods = SHARPNESSES * of_labels - np.log(sums) @ weights
    prior = SHARPNESS_PRIOR * np.log(SHARPNESSES) ** 2
    return float(SHARPNESSES[np.argmax(likelihoods - prior)])


def mean_share_power(stack: Stack, data: LabeledRows) -> float:
    """Return the posterior mean of the power of the class shares by held-out labels.

    With few labels it stays near zero, its mean before any was seen.
    """
    held_out = data.folds >= 0
    if not held_out.any() or not stack.log_shares.any():
        return 0.0
    logs = stack.logs(stack.held_out[held_out])
    tilted = log_softmax(logs + SHARE_POWERS[:, None, None] * stack.log_shares, axis=2)
    weights = data.label_weights[held_out]
    likelihoods = np.einsum("kic,ic,i->k", tilted, data.label_shares[held_out], weights)
    posterior = softmax(likelihoods - 0.5 * (SHARE_POWERS / SHARE_POWER_DEVIATION) ** 2)
    return float(posterior @ SHARE_POWERS)


def likelihood_weights(likelihoods: Array, row_weights: Array) -> Array:
    """Return the weights of a mixture by EM from equal weights."""
    n_members = len(likelihoods)
    weights = np.full(n_members, 1.0 / n_members)
    total = row_weights.sum() + DIRICHLET * n_members
    for _ in range(N_WEIGHT_STEPS):
        # what EM multiplies weights by: likelihoods relative to those of the average
        gains = likelihoods @ (row_weights / (weights @ likelihoods))
        previous = weights
        weights = (weights * gains + DIRICHLET) / total
        if np.abs(weights - previous).max() < WEIGHT_TOL:
            break
    return weights


def share_distances(members: Sequence[FittedMember], class_shares: Array) -> Array:
    """Return KL(shares || predicted shares of unlabeled rows) of each member."""
    predicted = np.array([member.class_shares for member in members])
    ratios = class_shares / (predicted + SMALLEST_CLASS_SHARE)
    distances: Array = np.log(np.maximum(ratios, 1e-300)) @ class_shares
    return distances


def share_ratio(probabilities: Array) -> float:
    """Return the ratio of the largest and smallest share of predicted classes."""
    counts = np.bincount(probabilities.argmax(axis=1), minlength=probabilities.shape[1])
    return float(counts.max() / max(counts.min(), 1))
