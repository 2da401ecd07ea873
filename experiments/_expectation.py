"""Semi-supervised classifiers side by side, at their defaults and tuned on labels, with what each was told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from experiments._runner import Cell, Experiment, Plan, Record, key
from experiments._tables import Draw, Method, Source, misclassified
from experiments._verdicts import FAILS, HOLDS, OPEN, judged
from regfactor import (
    ConvexFactorClassifier,
    ExpectationSVC,
    ReverseClassifier,
    SemiSupervisedClassifier,
    datasets,
)
from regfactor.baselines import KeywordVote, LaplacianSVM
from regfactor.constraints import Constraint, class_balance, labeled_feature
from regfactor.model_selection import LabeledKFold

DOCUMENTS, WORDS, LENGTH = 1000, 1000, 30
STATED = 5  # words of each class
ROUGH = 0.7  # the share that a rough guess gives to the word's class
load, load_splits = functools.cache(datasets.load), functools.cache(datasets.load_splits)
# a draw and y with unlabeled rows marked -> labels of all rows
Predict = Callable[[Draw, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Entry:
    """A method as it is run: what it was told next to labels and rows, and whether words are needed for it."""

    name: str
    told: str
    predict: Predict
    words: bool = False


def book(name: str, labels: int) -> Source:
    """Return a set of the book on semi-supervised learning with its twelve splits.

    Columns are scaled together.
    """

    def draw(number: int) -> Draw:
        table, split = load(name), load_splits(name, labels)[number]
        y = np.unique(table.target, return_inverse=True)[1]
        return Draw(scaled(table.data), y, split.labeled, split.unlabeled)

    return Source(f"{name.removeprefix('ssl_')}, {labels} labels", draw, "The book's splits.", 12)


def scaled(X: np.ndarray) -> np.ndarray:
    """Center the rows and divide them by one number, so that their mean square is one: as ExpectationSVC does."""
    X = X - X.mean(axis=0)
    return X / np.sqrt(np.mean(np.square(X).sum(axis=1)))


def text(labels: int) -> Source:
    """Return documents of two topics over a vocabulary with Zipf's law, unit rows of log counts."""

    def draw(number: int) -> Draw:
        rng = np.random.default_rng(number)
        frequency, y = 1 / (np.arange(WORDS) + 5), rng.integers(2, size=DOCUMENTS)
        side = np.where(rng.random(WORDS) < 0.2, 0.6 * rng.normal(size=WORDS), 0)
        p = frequency * np.exp(np.outer([-1, 1], side))
        counts = np.array(
            [rng.multinomial(max(rng.poisson(LENGTH), 1), p[c] / p[c].sum()) for c in y]
        )
        split = datasets.random_split(y, labels, random_state=number)
        return Draw(normalize(np.log1p(counts)), y, split.labeled, split.unlabeled)

    protocol = (
        f"Generated: {DOCUMENTS} documents of about {LENGTH} words out of {WORDS}, two topics; "
        "drawn splits."
    )
    return Source(f"text, {labels} labels", draw, protocol, 12)


def shares(draw: Draw, mask: np.ndarray | None = None) -> dict[int, float]:
    """Return the true shares of classes among unlabeled rows: side information."""
    y = draw.y[draw.unlabeled] if mask is None else draw.y[draw.unlabeled][mask[draw.unlabeled]]
    counts = np.bincount(y, minlength=int(draw.y.max()) + 1)
    return {c: float(share) for c, share in enumerate(counts / counts.sum())}


def word_statements(draw: Draw, rough: bool) -> list[Constraint]:
    """Return statements on the words whose presence tells most about the class, by true or by rough shares."""
    present = draw.X > 0
    rates = np.array(
        [(present[draw.y == c].sum(axis=0) + 1) / ((draw.y == c).sum() + 2) for c in (0, 1)]
    )
    telling = np.log(rates[1] / rates[0]) * (present.sum(axis=0) > 0.02 * len(draw.y))
    order, found = np.argsort(telling), []
    for c, columns in enumerate((order[:STATED], order[::-1][:STATED])):
        for j in columns:
            guess = {c: ROUGH, 1 - c: 1 - ROUGH} if rough else shares(draw, present[:, j])
            found.append(labeled_feature(int(j), guess))
    return found


def with_shares(**parameters: Any) -> Predict:
    """Return how ExpectationSVC is run with the true shares of classes."""

    def predict(draw: Draw, seen: np.ndarray) -> np.ndarray:
        model = ExpectationSVC([class_balance(shares(draw))], **parameters)
        return model.fit(draw.X, seen).transduction_

    return predict


def by_words(rough: bool) -> Predict:
    """Return how ExpectationSVC is run with labeled words."""

    def predict(draw: Draw, seen: np.ndarray) -> np.ndarray:
        return (
            ExpectationSVC(word_statements(draw, rough), None, C_unlabeled=1.0)
            .fit(draw.X, seen)
            .transduction_
        )

    return predict


def vote(draw: Draw, seen: np.ndarray) -> np.ndarray:
    """Vote by the words that the others are told of."""
    return KeywordVote(word_statements(draw, rough=True)).fit(draw.X, seen).transduction_


class Predicting:
    """A classifier whose predictions stand for a transduction, which it has none or a partial one of."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> Predicting:
        self.transduction_ = self.model.fit(X, y).predict(X)
        return self


def self_training(C: float = 1.0) -> Predicting:
    """Return self-training with logistic regression."""
    return Predicting(SelfTrainingClassifier(LogisticRegression(C=C, max_iter=1000)))


def neighbor_spreading(n_neighbors: int, alpha: float) -> LabelSpreading:
    """Return label spreading on a graph of neighbors."""
    return LabelSpreading("knn", n_neighbors=n_neighbors, alpha=alpha, max_iter=1000)


def at_default(method: Method) -> Predict:
    """Return how a method is run without settings."""
    return lambda draw, seen: method.predicted(draw, np.flatnonzero(seen >= 0), {})


def tuned(method: Method) -> Predict:
    """Return how a method is run whose setting is chosen by cross-validation on the labels."""

    def predict(draw: Draw, seen: np.ndarray) -> np.ndarray:
        labeled = np.flatnonzero(seen >= 0)
        return method.predicted(draw, labeled, chosen(method, draw, labeled))

    return predict


def chosen(method: Method, draw: Draw, labeled: np.ndarray) -> dict[str, Any]:
    """Return the setting with the fewest errors on held-out labels, the first of equals.

    Folds whose training labels are of one class teach nothing and are left out.
    """
    folds = LabeledKFold(FOLDS, shuffle=True, random_state=0).split(None, draw.y[labeled])
    pairs = [(labeled[train], labeled[held]) for train, held in folds]
    usable = [(kept, held) for kept, held in pairs if len(np.unique(draw.y[kept])) > 1]
    errors = []
    for setting in method.settings:
        wrong = 0
        for kept, held in usable:
            found = method.predicted(draw, kept, setting)
            wrong += int(np.sum(found[held] != draw.y[held]))
        errors.append(wrong)
    return method.settings[int(np.argmin(errors))]


@dataclass(frozen=True)
class SideBySide(Experiment):
    """Methods x data sets; `printed[data set][method]` is what was published, of others too."""

    title: str
    sources: Sequence[Source]
    entries: Sequence[Entry]
    printed: Mapping[str, Mapping[str, str]]
    notes: str

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [
            {"dataset": source.name, "method": entry.name, "split": i}
            for source in self.sources
            for entry in self.entries
            for i in range(self._count(source, entry, plan))
        ]

    def _count(self, source: Source, entry: Entry, plan: Plan) -> int:
        return (
            0
            if entry.words and not source.name.startswith("text")
            else plan.n_splits(source.splits or 12)
        )

    def run(self, cell: Cell) -> dict[str, Any]:
        source = next(s for s in self.sources if s.name == cell["dataset"])
        entry = next(e for e in self.entries if e.name == cell["method"])
        draw = source.draw(cell["split"])
        found = entry.predict(draw, draw.marked(draw.labeled))
        return {"error": misclassified(draw.y[draw.unlabeled], found[draw.unlabeled])}

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        rows = []
        for source in self.sources:
            for entry in self.entries:
                cells = [
                    {"dataset": source.name, "method": entry.name, "split": i}
                    for i in range(self._count(source, entry, plan))
                ]
                records = [done[key(cell)] for cell in cells]
                errors = np.array(
                    [record["result"]["error"] for record in records if "result" in record]
                )
                if not len(cells):
                    continue
                row: dict[str, Any] = {
                    "dataset": source.name,
                    "method": entry.name,
                    "told": entry.told,
                }
                row["printed"] = self.printed.get(source.name, {}).get(entry.name)
                row |= {"n": len(errors), "failed": len(records) - len(errors)}
                if len(errors):
                    spread = (
                        float(errors.std(ddof=1) / np.sqrt(len(errors)))
                        if len(errors) > 1
                        else None
                    )
                    seconds = float(np.median([record["seconds"] for record in records]))
                    row |= {
                        "mean": float(errors.mean()),
                        "standard_error": spread,
                        "seconds": seconds,
                    }
                    row["errors"] = [round(float(error), 6) for error in errors]
                rows.append(row)
            known = {entry.name for entry in self.entries}
            rows += [
                {"dataset": source.name, "method": name, "told": NOTHING, "printed": error}
                for name, error in self.printed.get(source.name, {}).items()
                if name not in known
            ]
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        parts = [self.notes]
        for source in self.sources:
            lines = [
                "| method | told next to rows and labels | published | error in % | n | seconds |",
                "|---" * 6 + "|",
            ]
            lines += [_line(row) for row in summary if row["dataset"] == source.name]
            parts.append(f"## {source.name}\n\n{source.protocol}\n\n" + "\n".join(lines))
        return "\n\n".join([*parts, verdicts(summary)])


def verdicts(summary: list[dict[str, Any]]) -> str:
    """Return on which data sets a method has the lower errors than another, told alike or not, on the same splits."""
    rows = {
        (row["dataset"], row["method"]): row
        for row in summary
        if row.get("errors") and row["failed"] == 0
    }
    names = list(dict.fromkeys(row["dataset"] for row in summary))
    lines = [VERDICTS]
    for one, other in COMPARED:
        found: dict[str, list[str]] = {HOLDS: [], FAILS: [], OPEN: []}
        for name in names:
            if (name, one) in rows and (name, other) in rows:
                gaps = np.subtract(*(rows[name, method]["errors"] for method in (other, one)))
                found[judged(gaps)].append(f"{name} by {100 * abs(gaps.mean()):.1f}")
        told = [
            f"{word}: {'; '.join(found[v]) or 'none'}"
            for v, word in ((HOLDS, "lower"), (FAILS, "higher"))
        ]
        lines.append(
            f"- **{one}** against {other}: {'. '.join(told)}. Not decided: {len(found[OPEN])}."
        )
    return "## Verdicts\n\n" + "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    spread = "" if row.get("standard_error") is None else f" ± {100 * row['standard_error']:.1f}"
    if "mean" in row:
        error = f"{100 * row['mean']:.1f}{spread}"
    elif "n" in row:
        error = "failed"
    else:
        error = "-"
    seconds = f"{row['seconds']:.2f}" if "seconds" in row else "-"
    return (
        f"| {row['method']} | {row['told']} | {row['printed'] or '-'} | {error} | "
        f"{row.get('n', '-')} | {seconds} |"
    )


VERDICTS = (
    "On which data sets the first has lower or higher errors on the same splits, by how many "
    "points in the mean; Wilcoxon's signed-rank test at 5 % in two tails, not corrected for the "
    "number of tests.\n"
)
OURS = "our default"
COMPARED = [
    ("ExpectationSVC, default", "SVM, tuned"),
    ("ExpectationSVC, tuned", "SVM, tuned"),
    ("ExpectationSVC, tuned", "ExpectationSVC, default"),
    ("ExpectationSVC, true balance", "ExpectationSVC, true balance, without annealing"),
    ("ExpectationSVC, true balance", "ExpectationSVC, default"),
    *(
        (f"ExpectationSVC, {how}", f"{other}, {how}")
        for how in ("default", "tuned")
        for other in ("LabelSpreading", "SelfTraining", "ReverseClassifier", "LaplacianSVM")
    ),
    ("ExpectationSVC, default", "ConvexFactorClassifier, default"),
    ("ExpectationSVC, words", "keyword vote"),
    ("ExpectationSVC, words, rough", "keyword vote"),
    ("ExpectationSVC, words", "SVM, tuned"),
    *(
        (OURS, other)
        for other in ("SVM, tuned", "ExpectationSVC, default", "ExpectationSVC, tuned")
    ),
]
FOLDS = 3
NOTHING, BALANCE = "nothing", "true shares of classes"
METHODS = [
    Method(
        "ExpectationSVC",
        functools.partial(ExpectationSVC, (), None),
        {"kernel": ("linear", "rbf"), "C_unlabeled": (0.05, 0.01, 0.2)},
    ),
    Method(
        "SVM",
        SVC,
        [
            {"kernel": ("linear",), "C": (0.1, 1.0, 10.0, 100.0)},
            {"kernel": ("rbf",), "C": (1.0, 10.0, 100.0), "gamma": ("scale", 0.2, 1.0, 5.0)},
        ],
        supervised=True,
    ),
    Method(
        "LabelSpreading",
        neighbor_spreading,
        {"n_neighbors": (5, 10, 20), "alpha": (0.2, 0.8, 0.99)},
    ),
    Method("SelfTraining", self_training, {"C": (0.1, 1.0, 10.0, 100.0)}),
    Method(
        "ReverseClassifier",
        ReverseClassifier,
        {"transfer": ("identity", "mahalanobis"), "unlabeled_weight": ("balanced", 0.1, "auto")},
    ),
    Method(
        "LaplacianSVM",
        functools.partial(LaplacianSVM, gamma="neighbors"),
        {"gamma_A": (1e-4, 1e-2), "gamma_I": (1e-2, 1.0), "n_neighbors": (5, 10)},
    ),
]
DEFAULTS = [
    Method("ExpectationSVC", ExpectationSVC),
    Method("ExpectationSVC, rbf", functools.partial(ExpectationSVC, kernel="rbf")),
    Method("SVM", SVC, supervised=True),
    Method("LabelSpreading", functools.partial(LabelSpreading, max_iter=1000)),
    Method("SelfTraining", self_training),
    Method("ReverseClassifier", ReverseClassifier),
    Method("ConvexFactorClassifier", ConvexFactorClassifier),
    Method("LaplacianSVM", LaplacianSVM),
]
ENTRIES = [
    *(Entry(f"{method.name}, default", NOTHING, at_default(method)) for method in DEFAULTS),
    *(Entry(f"{method.name}, tuned", NOTHING, tuned(method)) for method in METHODS),
    Entry("ExpectationSVC, true balance", BALANCE, with_shares()),
    Entry("ExpectationSVC, true balance, without annealing", BALANCE, with_shares(annealing=False)),
    Entry("ExpectationSVC, words", "10 words, true shares", by_words(rough=False), words=True),
    Entry(
        "ExpectationSVC, words, rough",
        f"10 words, {ROUGH:g} for all",
        by_words(rough=True),
        words=True,
    ),
    Entry("keyword vote", f"10 words, {ROUGH:g} for all", vote, words=True),
    Entry(OURS, NOTHING, at_default(Method(OURS, SemiSupervisedClassifier))),
]
