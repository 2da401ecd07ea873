"""Clusters of a table in a file by `AutoMixture`, with the reasons and how sure rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.cluster_report import (
    check_number,
    contents,
    plane_figure,
    sizes_in_words,
    with_probabilities,
)
from regfactor.cli.columns import Understood
from regfactor.cli.encode import encoder, plain, rows_of
from regfactor.cli.errors import count
from regfactor.cli.job import Job, quiet
from regfactor.cli.report_sections import Report, typed_code
from regfactor.cli.weak_spots import of_clusters
from regfactor.clusters.auto_mixture import AutoMixture
from regfactor.fitting.explanation import Explanation
from regfactor.report import Figure, Grid, Note, Text
from regfactor.report.figures import bars, histogram

SURE = 0.9  # probability from which on a row belongs to its cluster
CLEAR = 0.8  # share of sure rows from which on groups are separate
WHAT_IS_SURE = "the probability of their cluster less that of the next one"
TRUST = (
    "A mixture describes any table, also one whose rows form no groups: a skewed or curved cloud "
    "is described by several normal ones. Groups are real if most rows are sure of theirs, if the "
    "means differ in a way that makes sense, and if other rows of the same kind give them again."
)


def cluster_by_mixture(job: Job, seen: Understood, clusters: int | None, family: str) -> None:
    """Cluster rows by the mixture that the data support best, and write the table and a report."""
    X = seen.data
    check_number(seen, clusters, len(X.drop_duplicates()))
    asked = "auto" if clusters is None else clusters
    imposed = "" if family == "auto" else f"family={family!r}, "
    model = AutoMixture(asked, family=family, random_state=job.settings.seed)
    job.fit("finding clusters", model, X)
    shares = model.predict_proba(X)
    labels = shares.argmax(axis=1)
    sizes = np.bincount(labels, minlength=model.n_components_)
    sure = float((shares.max(axis=1) >= SURE).mean())
    explanation = model.explain()
    doubt = _doubt(sure, model.n_components_)
    lead = f"{count(model.n_components_, 'cluster')} of {sizes_in_words(sizes)} rows. {doubt}"
    job.console.say(lead)
    job.console.say(" ".join(explanation.sentences))
    doubts = of_clusters(seen, labels, _lead_over_second(shares), WHAT_IS_SURE)
    job.console.say(f"Where it may be wrong: {doubts.text}")
    bics = getattr(model, "bics_", {})
    job.console.record |= {
        "clusters": model.n_components_,
        "sizes": sizes,
        "member": model.member_,
        "members": dict(zip(model.members_, model.scores_, strict=True)),
        "bics": bics,
        "sure": sure,
        "objective": model.objective_,
        **doubts.record,
    }
    verdict = Text(doubt) if sure >= CLEAR else Note(doubt)
    report = Report(
        title=", clustered",
        lead=lead,
        facts=[
            (str(model.n_components_), "clusters"),
            (f"{sure:.0%}", f"rows with a probability of at least {SURE}"),
        ],
        story=[Text(" ".join(explanation.sentences)), _members(explanation)],
        result=_result(seen, labels, shares, bics),
        trust=[verdict, Text(TRUST)],
        imports=["from regfactor import AutoMixture"],
        code=[
            typed_code(seen, "X"),
            f"model = AutoMixture({asked!r}, {imposed}random_state={job.settings.seed}).fit(X)",
            "print(model.explain())",
            "print(model.labels_ + 1)",
        ],
        model=model,
        after_result=doubts.section,
    )
    out = with_probabilities(seen.table, shares)
    job.finish(out, report.page(job, seen), model, {"columns": seen.kinds})


def _lead_over_second(shares: Any) -> Any:
    """Return the probability of the cluster of each row less that of the next one."""
    if shares.shape[1] == 1:
        return np.ones(len(shares))
    largest = np.sort(shares, axis=1)
    return largest[:, -1] - largest[:, -2]


def _doubt(sure: float, k: int) -> str:
    """Return how sure rows are of their clusters, and what follows."""
    if k == 1:
        return "One cluster holds all rows: more do not describe them better."
    found = f"{sure:.0%} of the rows have their cluster with a probability of at least {SURE}"
    if sure >= CLEAR:
        return f"{found}."
    return f"{found}; the groups run into each other."


def _members(explanation: Explanation) -> Grid:
    lines = [
        (m.member, f"{m.weight:.0%}", f"{m.score:.3f}", m.assumes) for m in explanation.members
    ]
    caption = f"Members whose probabilities were averaged; score: {explanation.score_name}."
    return Grid(("member", "weight", "score", "assumes"), lines, caption)


def _result(seen: Understood, labels: Any, shares: Any, bics: dict[int, float]) -> list[Any]:
    blocks: list[Any] = []
    if shares.shape[1] > 1:
        with quiet():
            E = rows_of(encoder(seen).fit_transform(plain(seen.data)))
        blocks += plane_figure(E, labels)
        svg = histogram(shares.max(axis=1), "probability of the cluster", span=(0.0, 1.0))
        blocks.append(Figure(svg, "How sure rows are of their clusters."))
    if len(bics) > 1:
        names = [f"{k} clusters" for k in bics]
        gains = [(bics[1] - bic) / len(labels) for bic in bics.values()]
        svg = bars(names, gains, "gain in BIC over one cluster, per row")
        blocks.append(Figure(svg, "How much better more clusters describe the rows."))
    return [*blocks, *contents(seen, labels)]
