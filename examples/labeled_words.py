"""Classifying text by labeled words instead of labeled documents.

Experts can name indicative words: "of the documents with *pitcher*, four of five are about
baseball". Here five words of each of two groups carry such a guess, the same rough 80 % for all.
The texts are those of 20 newsgroups (baseball and space) where scikit-learn has them on disk;
otherwise a corpus is generated: two topics over a vocabulary with Zipf's law. The baseline is
voting by the same words, without learning.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import fetch_20newsgroups
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ExpectationSVC
from regfactor.baselines import KeywordVote
from regfactor.constraints import Constraint, labeled_feature

GROUPS = ("rec.sport.baseball", "sci.space")
WORDS = (
    ("pitcher", "inning", "hit", "league", "fans"),
    ("orbit", "nasa", "launch", "moon", "satellite"),
)
GUESS, TOLERANCE = 0.8, 0.1
DOCUMENTS, VOCABULARY, LENGTH, TOPICAL = 2000, 3000, 40, 300
SPREAD, RARE = 0.25, 40  # how much topical words differ, and from which rank on they may be stated
COUNTS = (0, 1, 5, 20, 50)  # labeled documents of each group
DRAWS = 3
Corpus = tuple[scipy.sparse.csr_array, np.ndarray, list[str], tuple[tuple[str, ...], ...], str]


def newsgroups() -> Corpus:
    """Return 20 newsgroups from scikit-learn's cache."""
    texts = fetch_20newsgroups(
        categories=GROUPS, remove=("headers", "footers", "quotes"), download_if_missing=False
    )
    vectorizer = TfidfVectorizer(min_df=3, stop_words="english", sublinear_tf=True)
    X = vectorizer.fit_transform(texts.data)
    names = vectorizer.get_feature_names_out().tolist()
    words = tuple(
        tuple(word for word in group if word in vectorizer.vocabulary_) for group in WORDS
    )
    return (
        scipy.sparse.csr_array(X),
        texts.target,
        names,
        words,
        "20 newsgroups, baseball and space",
    )


def generated() -> Corpus:
    """Return two topics that differ in some words.

    Of those that are not frequent the clearest are stated.
    """
    rng = np.random.default_rng(0)
    frequency, y = 1 / (np.arange(VOCABULARY) + 11), rng.integers(2, size=DOCUMENTS)
    side = np.where(np.arange(VOCABULARY) < TOPICAL, SPREAD * rng.normal(size=VOCABULARY), 0)
    p = frequency * np.exp(np.outer([-1, 1], side))
    counts = np.array([rng.multinomial(rng.poisson(LENGTH), p[c] / p[c].sum()) for c in y])
    X = scipy.sparse.csr_array(normalize(np.log1p(counts)))
    order = np.argsort(np.where(np.arange(VOCABULARY) < RARE, 0, side))
    names = [f"word {j}" for j in range(VOCABULARY)]
    words = tuple(tuple(names[j] for j in places[:5]) for places in (order, order[::-1]))
    return X, y, names, words, "generated texts of two topics"


def corpus() -> Corpus:
    """Return 20 newsgroups where they are on disk, generated texts otherwise."""
    try:
        return newsgroups()
    except OSError:  # not on disk, and an example does not download
        return generated()


def statements(names: list[str], words: tuple[tuple[str, ...], ...]) -> list[Constraint]:
    """Return the guess for every word."""
    return [
        labeled_feature(word, {c: GUESS, 1 - c: 1 - GUESS}, TOLERANCE, vocabulary=names)
        for c, group in enumerate(words)
        for word in group
    ]


def accuracies(
    X: Any, y: np.ndarray, given: list[Constraint], count: int, seed: int
) -> tuple[float, float]:
    """Return the accuracy of words and labels together, and of labels alone, on the other rows."""
    rng, seen = np.random.default_rng(seed), np.full(len(y), -1)
    for c in (0, 1):
        seen[rng.permutation(np.flatnonzero(y == c))[:count]] = c
    free = seen < 0
    both = ExpectationSVC(given, C=None, C_unlabeled=1.0).fit(X, seen).transduction_[free]
    if not count:
        return float((both == y[free]).mean()), float("nan")
    alone = LogisticRegression(C=10.0).fit(X[~free], y[~free]).predict(X[free])
    return float((both == y[free]).mean()), float((alone == y[free]).mean())


def example() -> tuple[str, Any]:
    """Draw accuracies by the number of labeled documents, and what was learned of the words."""
    import matplotlib.pyplot as plt

    X, y, names, words, what = corpus()
    given = statements(names, words)
    found = np.array(
        [[accuracies(X, y, given, count, seed) for seed in range(DRAWS)] for count in COUNTS]
    ).mean(axis=1)
    vote = float((KeywordVote(given).fit(X, np.full(len(y), -1)).transduction_ == y).mean())
    covered = float(np.mean(sum(c.features(X) for c in given) > 0))
    model = ExpectationSVC(given, C=None, C_unlabeled=1.0).fit(X, np.full(len(y), -1))

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    at = np.arange(len(COUNTS))
    left.plot(at, found[:, 0], "o-", label="ten words, and labels")
    left.plot(at, found[:, 1], "s-", label="labels alone")
    left.axhline(vote, color="gray", linestyle="--", label="voting by the ten words")
    left.set(
        xticks=at,
        xticklabels=COUNTS,
        xlabel="labeled documents of each group",
        title="accuracy on the others",
    )
    left.set_ylim(bottom=min(vote, np.nanmin(found)) - 0.15)
    left.legend(frameon=False, loc="lower right")
    stated = {c.column for c in given}
    top = np.argsort(-np.abs(model.coef_[0]))[:24]
    top = top[np.argsort(model.coef_[0][top])]
    colors = ["C0" if j in stated else "lightgray" for j in top]
    right.barh([names[j] for j in top], model.coef_[0][top], color=colors)
    right.set(title="largest weights without a label (blue: words that were stated)")
    right.tick_params(axis="y", labelsize=7)
    learned = sum(j not in stated for j in top)
    text = (
        f"{what}: {X.shape[0]} documents, {X.shape[1]} words; the stated ones occur in "
        f"{covered:.0%} of documents.\nTen words, no label: accuracy {found[0, 0]:.3f}; voting by "
        f"them: {vote:.3f}; labels alone: {found[COUNTS.index(5), 1]:.3f} with 5 documents of each "
        f"group, {found[-1, 1]:.3f} with {COUNTS[-1]}.\nOf the {len(top)} words with the largest "
        f"weights {learned} were never stated."
    )
    return text, figure


if __name__ == "__main__":
    show(__file__, example)
