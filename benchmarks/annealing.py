"""Annealing: ExpectationSVC on a large sparse table, counted in products, and against QN-S3VM."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks._peers import QUICK, cpu, in_fresh_process, installed, table, versions
from benchmarks.labels import APART, ROWS, SEEDS, Draw, gaussians, qn, self_trained
from benchmarks.labels import COLUMNS as FEW
from regfactor import ExpectationSVC
from regfactor.constraints import class_balance
from regfactor.labels.expectation.margin_newton import CenteredRows

DOCUMENTS, WORDS, LENGTH = (10_000 if QUICK else 100_000), 10_000, 40
TOPICAL, TILT = 400, 0.25  # words whose odds differ between the classes, and the log of by how much
LABELS = 50
MOST, TIMES = 1500, 1.5  # the goal: products, and CPU in units of these
ROUNDS = 40  # products that are timed before and after a fit, both kinds in turns
BALANCE = class_balance({0: 0.5, 1: 0.5})
Corpus = tuple[scipy.sparse.csr_array, np.ndarray, np.ndarray]


def corpus(seed: int) -> Corpus:
    """Return documents of two classes by words (log counts, unit rows), the classes, and those of few rows."""
    rng = np.random.default_rng(seed)
    frequency = 1 / (np.arange(WORDS) + 21)  # Zipf's law without the twenty most frequent words
    side = np.where(np.arange(WORDS) < TOPICAL, TILT * rng.choice([-1, 1], WORDS), 0)
    y = rng.integers(2, size=DOCUMENTS)
    lengths = rng.poisson(LENGTH, DOCUMENTS)
    words = np.empty(lengths.sum(), np.int32)
    owner = np.repeat(np.arange(DOCUMENTS, dtype=np.int32), lengths)
    for c in (0, 1):
        p = frequency * np.exp((2 * c - 1) * side)
        words[y[owner] == c] = rng.choice(WORDS, int(lengths[y == c].sum()), p=p / p.sum())
    X = scipy.sparse.csr_matrix((np.ones(len(words)), (owner, words)), shape=(DOCUMENTS, WORDS))
    X.sum_duplicates()
    X.data = 1 + np.log(X.data)
    seen = np.full(DOCUMENTS, -1)
    for c in (0, 1):
        seen[rng.permutation(np.flatnonzero(y == c))[: LABELS // 2]] = c
    return scipy.sparse.csr_array(normalize(X)), y, seen


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """Count the products with the table, X w and X'v one each."""
    count, originals = [0], (CenteredRows.times, CenteredRows.adjoint)

    def counting(
        product: Callable[[CenteredRows, np.ndarray], np.ndarray],
    ) -> Callable[[CenteredRows, np.ndarray], np.ndarray]:
        def call(self: CenteredRows, vector: np.ndarray) -> np.ndarray:
            count[0] += 1
            return product(self, vector)

        return call

    CenteredRows.times, CenteredRows.adjoint = (counting(product) for product in originals)
    try:
        yield count
    finally:
        CenteredRows.times, CenteredRows.adjoint = originals


def product_seconds(X: scipy.sparse.csr_array) -> float:
    """Return the CPU of one product, the mean of both kinds, with X and X' stored by rows."""
    transpose, rng = scipy.sparse.csr_array(X.T), np.random.default_rng(0)
    w, v = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])

    def both() -> None:
        for _ in range(ROUNDS):
            X @ w
            transpose @ v

    both()
    return cpu(both)[0] / (2 * ROUNDS)


def large(seed: int) -> list[str]:
    """Return a row of the table: what a complete fit took, and what it reached."""
    X, y, seen = corpus(seed)
    free, labeled = seen < 0, seen >= 0
    before = product_seconds(X)
    with counted() as count:
        seconds, model = cpu(lambda: ExpectationSVC(BALANCE).fit(X, seen))
    product = (before + product_seconds(X)) / 2
    alone = LinearSVC().fit(X[labeled], y[labeled]).predict(X)
    many = (
        LinearSVC(C=0.1).fit(X[: DOCUMENTS // 5], y[: DOCUMENTS // 5]).predict(X[DOCUMENTS // 5 :])
    )
    right = [
        np.mean(guess == y[rows])
        for guess, rows in (
            (alone[free], free),
            (model.transduction_[free], free),
            (many, slice(DOCUMENTS // 5, None)),
        )
    ]
    return [
        str(seed),
        f"{X.nnz / 1e6:.1f}M",
        f"**{count[0]}**",
        f"{seconds:.1f} s",
        f"{1000 * product:.1f} ms",
        f"{seconds / (count[0] * product):.2f}",
        f"**{seconds / (MOST * product):.2f}**",
        str(model.n_iter_),
        *(f"{share:.3f}" for share in right),
    ]


def ours(draw: Draw) -> np.ndarray:
    """Predict by ExpectationSVC at its defaults: what it states is the balance of the labels."""
    return ExpectationSVC().fit(draw[0], draw[2]).transduction_


def compared(draws: list[Draw]) -> list[list[str]]:
    """Return one row for each method: accuracy on unlabeled rows, CPU, and how many times faster ours is."""
    methods = {"ours": ours, "SelfTrainingClassifier(LogisticRegression)": self_trained}
    methods |= {"QN-S3VM": qn} if installed("semisupervised") else {}
    measured = {}
    for name, predicted in methods.items():
        runs = [cpu(lambda draw=draw, predicted=predicted: predicted(draw)) for draw in draws]
        accuracy = [
            float(np.mean((labels == draw[1])[draw[2] < 0]))
            for (_, labels), draw in zip(runs, draws, strict=True)
        ]
        measured[name] = float(np.mean([seconds for seconds, _ in runs])), accuracy
    mine = measured["ours"][0]
    rows = [["best possible", f"{np.mean([draw[3] for draw in draws]):.3f}", "", "", ""]]
    for name, (seconds, accuracy) in measured.items():
        each = " ".join(f"{a:.3f}" for a in accuracy)
        rows.append(
            [
                name,
                f"**{np.mean(accuracy):.3f}**",
                each,
                f"{seconds:.2f} s",
                f"{seconds / mine:.1f}",
            ]
        )
    return rows


def main() -> str:
    """Run both parts and return the tables."""
    ours(gaussians(99, APART))  # imports and buffers
    head = "method | mean accuracy on unlabeled rows | each seed | CPU of a fit | times ours"
    wide = APART * 4 / 3
    lines = [
        "# Annealing",
        "",
        f"One thread; {versions('scikit-learn')}.",
        "",
        f"## {DOCUMENTS} x {WORDS} sparse, {LABELS} labels, balance stated",
        "",
        f"Generated documents of about {LENGTH} words. A product is X w or X'v, stored by rows "
        "both; it is timed before and after the fit in the same process. Goal: a complete "
        f"annealing in {MOST} products, and {TIMES} times the CPU of these, everything else "
        "included. `LinearSVC` on the labels, and on a fifth of the rows with all their labels, "
        "tested on the rest.",
        "",
        *table(
            "seed | non-zeros | products | CPU of the fit | CPU of a product | CPU / that of its "
            f"products | CPU / that of {MOST} products | f-steps | LinearSVC on {LABELS} labels | "
            f"ours | LinearSVC on {DOCUMENTS // 5} labels",
            [in_fresh_process(large, seed) for seed in range(SEEDS)],
        ),
        "",
        f"## {ROWS} x {FEW}, two Gaussians, 10 labels per class, means {APART} apart",
        "",
        "As in `labels`. Goal: 10 times faster than QN-S3VM at no worse accuracy.",
        "",
        *table(head, compared([gaussians(seed, APART) for seed in range(SEEDS)])),
        "",
        f"## Means {wide:.2f} apart, all else the same",
        "",
        *table(head, compared([gaussians(seed, wide) for seed in range(SEEDS)])),
    ]
    return "\n".join(lines) + "\n"
