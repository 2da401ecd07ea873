"""`regfactor cluster`: groups of similar rows, by a mixture or under a divergence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.pipeline import make_pipeline

from regfactor.cli.cluster_mixture import cluster_by_mixture
from regfactor.cli.cluster_report import (
    check_number,
    contents,
    plane_figure,
    sizes_in_words,
    with_distances,
)
from regfactor.cli.columns import CATEGORY, FLAG, TEXT, Understood
from regfactor.cli.console import ProgressCallback
from regfactor.cli.encode import encoder, encoder_code, encoder_imports, plain, rows_of, varied
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job, quiet
from regfactor.cli.outliers import without_outliers
from regfactor.cli.report_sections import Report
from regfactor.cli.weak_spots import of_clusters
from regfactor.clusters.kmeans import BregmanKMeans
from regfactor.clusters.mixture_members import FAMILY_NEEDS
from regfactor.report import Figure, Note, Text
from regfactor.report.figures import bars

MOST_CLUSTERS = 10
SILHOUETTE_ROWS = 2_000  # rows of silhouettes, which are compared with each other
# mean silhouettes below which groups are hardly there, and from which on they are
DOUBTFUL_SILHOUETTE = 0.25
CLEAR_SILHOUETTE = 0.5
N_OTHER_STARTS = 5  # with other seeds, to see what depends on the start
FULL_AGREEMENT = 1 - 1e-9  # of partitions that differ by rounding at most
WHAT_IS_SURE = "by how much their center is nearer than the next, as a share of that distance"
TRUST = (
    "k-means finds groups in any table, also in one without any. Round, separate clouds in the "
    "figure and a silhouette above about 0.5 speak for real groups; a silhouette below 0.25 speaks "
    "against them."
)


def run(job: Job, path: Path, clusters: str, divergence: str, family: str) -> None:
    """Cluster a table, and write it with a report."""
    number = _as_number(clusters)
    _check_family(family, divergence)
    table = job.read(path)
    job.plan(table)
    seen = _suited(varied(job.understand(table, show=False)), divergence)
    seen.require(1, "cluster")
    job.show_columns(seen)
    if divergence == "auto" and seen.of_kind(TEXT):
        if family != "auto":
            raise BadInput(
                f"--family {family} is for tables without columns of text; leave out --family or "
                "--text."
            )
        job.console.note(
            "With columns of text, rows are compared by k-means on the weights of their words "
            "(--divergence squared)."
        )
        divergence = "squared"
    if divergence == "auto":
        cluster_by_mixture(job, seen, number, family)
    else:
        _cluster_by_divergence(job, seen, number, divergence)


def _check_family(family: str, divergence: str) -> None:
    """Raise for a family that there is not, or one together with a divergence."""
    families = ["auto", *FAMILY_NEEDS]
    if family not in families:
        raise BadInput(f"--family is one of {listed(families)}, not {family!r}.")
    if family != "auto" and divergence != "auto":
        raise BadInput(
            f"--family {family} is a mixture, --divergence {divergence} is k-means: give one of "
            "them."
        )


def _as_number(clusters: str) -> int | None:
    """Return the number of clusters that was asked for, None for "auto"."""
    if clusters == "auto":
        return None
    try:
        return int(clusters)
    except ValueError as error:
        raise BadInput(f"--clusters is a number or auto, not {clusters!r}.") from error


def _cluster_by_divergence(
    job: Job,
    seen: Understood,
    clusters: int | None,
    divergence: str,
) -> None:
    """Cluster rows by k-means under a divergence, and write the table with a report."""
    _note_ones(job, seen, divergence)
    encode = encoder(seen, scale=divergence == "squared")
    E = rows_of(encode.fit_transform(plain(without_outliers(job, seen)[0])))
    different = E.shape[0]
    if not hasattr(E, "tocsr"):
        different = len(np.unique(E, axis=0))
    check_number(seen, clusters, different)
    model = BregmanKMeans(8, divergence=divergence, n_init=5, random_state=job.settings.seed)
    tried = {}
    if clusters is None:
        most = min(MOST_CLUSTERS, different - 1)
        with job.console.progress("choosing the number of clusters") as progress, quiet():
            tried = _silhouettes(model, E, most, job.settings.seed, progress)
    k = clusters or max(tried, key=lambda k: tried[k])
    job.fit(f"finding {k} clusters", model.set_params(n_clusters=k), E)
    with job.console.progress("trying other starts") as progress, quiet():
        stability = _stability(model, E, job.settings.seed, progress)
    sizes = np.bincount(model.labels_, minlength=k)
    doubt = _real(tried, k)
    evidence = f"{_stable(stability, k)}{doubt}"
    lead = f"{count(k, 'cluster')} of {sizes_in_words(sizes)} rows. {evidence}"
    distances = model.transform(E)
    doubts = of_clusters(seen, model.labels_, _nearness(distances), WHAT_IS_SURE)
    job.console.say(lead)
    job.console.say(f"Where it may be wrong: {doubts.text}")
    job.console.record |= {
        "clusters": k,
        "sizes": sizes,
        "silhouettes": tried,
        "stability": stability,
        "objective": model.objective_,
        **doubts.record,
    }
    facts = [(str(k), "clusters"), (f"{stability:.2f}", "agreement of other starts (1 = the same)")]
    if tried:
        facts.append((f"{tried[k]:.2f}", "mean silhouette"))
    verdict = Note(evidence) if doubt else Text(evidence)
    report = Report(
        title=", clustered",
        lead=lead,
        facts=facts,
        story=[Text(_story(k, tried, divergence))],
        result=_result(seen, model, E, tried),
        trust=[verdict, Text(TRUST)],
        imports=[encoder_imports(seen), "from regfactor import BregmanKMeans"],
        code=[
            encoder_code(seen, divergence == "squared"),
            f"model = BregmanKMeans({k}, divergence={divergence!r}, n_init=5, "
            f"random_state={job.settings.seed}).fit(E)",
            "print(model.labels_ + 1)",
        ],
        model=model,
        after_result=doubts.section,
    )
    out = with_distances(seen.table, model.labels_, distances)
    page = report.page(job, seen)
    job.finish(out, page, make_pipeline(encode, model), {"columns": seen.kinds})


def _nearness(distances: Any) -> Any:
    """Return by how much the nearest center is nearer than the next, as a share of that."""
    if distances.shape[1] == 1:
        return np.ones(len(distances))
    ordered = np.sort(distances, axis=1)
    return 1 - ordered[:, 0] / np.maximum(ordered[:, 1], np.finfo(float).tiny)


def _suited(seen: Understood, divergence: str) -> Understood:
    """Return the table without columns that a divergence cannot compare.

    Bernoulli takes flags and pairs of words.
    """
    if divergence in ("auto", "squared"):
        return seen
    if divergence == "bernoulli":
        why = f"neither 0/1 nor two words, which {divergence} needs"
        others = [c.name for c in seen.inputs if c.kind == CATEGORY and c.levels != 2]
        others += seen.of_kind(TEXT)
    else:
        why = f"no number, which {divergence} needs"
        others = seen.of_kind(CATEGORY, FLAG, TEXT)
    return seen.without(dict.fromkeys(others, why))


def _note_ones(job: Job, seen: Understood, divergence: str) -> None:
    """Note which of two words was encoded as 1."""
    if divergence == "squared":
        return
    ones: dict[str, list[str]] = {}
    for name in seen.of_kind(CATEGORY):
        later = max(map(str, seen.frame[name].dropna().unique()))
        ones.setdefault(later, []).append(name)
    if ones:
        words = "; ".join(f"{word!r} in {listed(names)}" for word, names in ones.items())
        job.console.note(f"Columns of two words were encoded as 0 and 1. 1 is {words}.")


def _silhouettes(
    model: Any,
    E: Any,
    most: int,
    seed: int,
    progress: ProgressCallback,
) -> dict[int, float]:
    """Return how well rows lie in their clusters, for each number of them."""
    rows = np.random.default_rng(seed).permutation(E.shape[0])[:SILHOUETTE_ROWS]
    found = {}
    for k in range(2, most + 1):
        labels = clone(model).set_params(n_clusters=k).fit(E).labels_[rows]
        if 1 < len(np.unique(labels)) < len(rows):
            found[k] = float(silhouette_score(E[rows], labels))
        progress.part(k - 1, most - 1)
    return found or {2: 0.0}


def _stability(model: Any, E: Any, seed: int, progress: ProgressCallback) -> float:
    """Return the mean adjusted Rand index between this partition and those of other seeds."""
    agreements = []
    for start in range(1, N_OTHER_STARTS + 1):
        labels = clone(model).set_params(random_state=seed + start).fit(E).labels_
        agreements.append(adjusted_rand_score(model.labels_, labels))
        progress.part(start, N_OTHER_STARTS)
    return float(np.mean(agreements))


def _stable(stability: float, k: int) -> str:
    if k == 1:
        return "One cluster holds all rows."
    if stability >= FULL_AGREEMENT:
        return f"{N_OTHER_STARTS} other starts gave the same groups."
    groups = "other groups"
    remedy = ": do not lean on them"
    if stability > 0.7:
        groups = "nearly the same groups" if stability > 0.95 else "similar groups"
        remedy = ""
    agreement = f"(agreement {stability:.2f} of 1)"
    return f"{N_OTHER_STARTS} other starts gave {groups} {agreement}{remedy}."


def _real(tried: dict[int, float], k: int) -> str:
    """Return a sentence if silhouettes do not support the groups; empty if they do."""
    silhouette = tried.get(k, 1.0)
    if silhouette >= CLEAR_SILHOUETTE:
        return ""
    if silhouette >= DOUBTFUL_SILHOUETTE:
        return (
            f" The mean silhouette is {silhouette:.2f}, and only one above about "
            f"{CLEAR_SILHOUETTE} speaks for groups: rows without any can give as much."
        )
    return (
        f" The mean silhouette is {silhouette:.2f}: the groups run into each other, and the rows "
        "may have no groups at all."
    )


def _story(k: int, tried: dict[int, float], divergence: str) -> str:
    how = "The number was given."
    if tried:
        how = f"{k} was chosen by silhouettes among 2 to {max(tried)}."
    scaling = "scaled to the same spread" if divergence == "squared" else "as they are"
    return (
        f"Rows were put into {count(k, 'cluster')} so that they lie as near as possible to the "
        f"center of their own ({divergence} divergence; numbers {scaling}, missing cells at the "
        f"median). {how}"
    )


def _result(seen: Understood, model: Any, E: Any, tried: dict[int, float]) -> list[Any]:
    blocks = plane_figure(E, model.labels_)
    if tried:
        svg = bars([f"{k} clusters" for k in tried], list(tried.values()), "mean silhouette")
        caption = "How well rows lie in their clusters, for each number of clusters."
        blocks.append(Figure(svg, caption))
    return [*blocks, *contents(seen, model.labels_)]
