"""`regfactor cluster`: groups of similar rows, and how much they depend on the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.pipeline import make_pipeline

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TEXT, Understood
from regfactor.cli.encode import encoder, encoder_code, encoder_imports, plain, rows_of, varied
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job, free_name, quiet
from regfactor.cli.outliers import without_outliers
from regfactor.cli.report_sections import (
    certificate_section,
    data_section,
    notes,
    reading_code,
    repeat_section,
)
from regfactor.clusters.kmeans import BregmanKMeans
from regfactor.core.params import Array
from regfactor.report import Figure, Grid, Note, Page, Section, Text, number
from regfactor.report.figures import bars, cloud

MOST_CLUSTERS = 10
SAMPLE = 2_000  # rows of silhouettes, which are compared with each other
# mean silhouettes below which groups are hardly there, and from which on they are
DOUBTFUL = 0.25
CLEAR = 0.5
RUNS = 5  # with other seeds, to see what hangs on the start
SAME = 1 - 1e-9  # agreement of partitions that differ by rounding at most


def run(job: Job, path: Path, clusters: int | None, divergence: str) -> None:
    """Cluster a table, and write it with a report."""
    seen = _suited(varied(job.understand(job.read(path), tell=False)), divergence)
    seen.require(1, "cluster")
    job.tell(seen)
    _tell_ones(job, seen, divergence)
    encode = encoder(seen, scale=divergence == "squared")
    E = rows_of(encode.fit_transform(plain(without_outliers(job, seen)[0])))
    if not hasattr(E, "tocsr"):
        different = len(np.unique(E, axis=0))
    else:
        different = E.shape[0]
    if clusters is not None and not 1 <= clusters <= different:
        raise BadInput(
            f"--clusters is {clusters}; it must lie between 1 and {different}, the number of "
            "different rows."
        )
    if different < 3 and clusters is None:
        raise BadInput(
            f"{path.name} has {different} different rows, too few to find groups in; give "
            "--clusters."
        )
    model = BregmanKMeans(8, divergence=divergence, n_init=5, random_state=job.settings.seed)
    with job.console.progress("choosing the number of clusters"), quiet():
        if clusters is not None:
            tried = {}
        else:
            tried = _silhouettes(model, E, min(MOST_CLUSTERS, different - 1), job.settings.seed)
    if clusters is not None:
        k = clusters
    else:
        k = max(tried, key=lambda k: tried[k])
    job.fit(f"finding {k} clusters", model.set_params(n_clusters=k), E)
    with job.console.progress("trying other starts"), quiet():
        stability = _stability(model, E, job.settings.seed)
    sizes = np.bincount(model.labels_, minlength=k)
    lead = (
        f"{count(k, 'cluster')} of {_sizes(sizes)} rows. {_stable(stability, k)}{_real(tried, k)}"
    )
    job.console.say(lead)
    job.console.record |= {
        "clusters": k,
        "sizes": sizes,
        "silhouettes": tried,
        "stability": stability,
        "objective": model.objective_,
    }
    page = _page(job, seen, model, E, (lead, tried, stability, divergence))
    info = {"columns": seen.kinds}
    job.finish(_written(seen, model, E), page, make_pipeline(encode, model), info)


def _suited(seen: Understood, divergence: str) -> Understood:
    """Return the table without columns that a divergence cannot compare.

    Bernoulli takes flags and pairs of words.
    """
    if divergence == "squared":
        return seen
    if divergence == "bernoulli":
        others = {
            c.name: f"neither 0/1 nor two words, which {divergence} needs"
            for c in seen.inputs
            if c.kind == TEXT or (c.kind == CATEGORY and c.levels != 2)
        }
    else:
        others = {
            name: f"no number, which {divergence} needs"
            for name in seen.of_kind(CATEGORY, FLAG, TEXT)
        }
    return seen.without(others)


def _tell_ones(job: Job, seen: Understood, divergence: str) -> None:
    """Note which of two words was encoded as 1."""
    ones: dict[str, list[str]] = {}
    for name in seen.of_kind(CATEGORY) if divergence != "squared" else ():
        ones.setdefault(max(map(str, seen.frame[name].dropna().unique())), []).append(name)
    if ones:
        words = "; ".join(f"{word!r} in {listed(names)}" for word, names in ones.items())
        job.console.note(f"Columns of two words were encoded as 0 and 1. 1 is {words}.")


def _silhouettes(model: Any, E: Any, most: int, seed: int) -> dict[int, float]:
    """Return how well rows lie in their clusters, for each number of them."""
    rows = np.random.default_rng(seed).permutation(E.shape[0])[:SAMPLE]
    found = {}
    for k in range(2, most + 1):
        labels = clone(model).set_params(n_clusters=k).fit(E).labels_[rows]
        if 1 < len(np.unique(labels)) < len(rows):
            found[k] = float(silhouette_score(E[rows], labels))
    return found or {2: 0.0}


def _stability(model: Any, E: Any, seed: int) -> float:
    """Return the mean adjusted Rand index between this partition and those of other seeds."""
    others = [
        clone(model).set_params(random_state=seed + 1 + i).fit(E).labels_ for i in range(RUNS)
    ]
    return float(np.mean([adjusted_rand_score(model.labels_, labels) for labels in others]))


def _stable(stability: float, k: int) -> str:
    if k == 1:
        return "One cluster holds all rows."
    if stability >= SAME:
        return f"{RUNS} other starts gave the same groups."
    if stability > 0.95:
        return f"{RUNS} other starts gave nearly the same groups (agreement {stability:.2f} of 1)."
    if stability > 0.7:
        return f"{RUNS} other starts gave similar groups (agreement {stability:.2f} of 1)."
    return (
        f"{RUNS} other starts gave other groups (agreement {stability:.2f} of 1): do not lean on "
        "them."
    )


def _sizes(sizes: Array) -> str:
    """Return 108, 20 and 3."""
    *first, last = [f"{n:,}" for n in sizes]
    if first:
        return f"{', '.join(first)} and {last}"
    return last


def _real(tried: dict[int, float], k: int) -> str:
    """Return a sentence if silhouettes do not support the groups; empty if they do."""
    silhouette = tried.get(k, 1.0)
    if silhouette >= CLEAR:
        return ""
    if silhouette >= DOUBTFUL:
        return (
            f" The mean silhouette is {silhouette:.2f}, and only one above about {CLEAR} speaks "
            "for groups: rows without any can give as much."
        )
    return (
        f" The mean silhouette is {silhouette:.2f}: the groups run into each other, and the rows "
        "may have no groups at all."
    )


def _written(seen: Understood, model: Any, E: Any) -> Any:
    out = seen.table.raw.copy()
    names = list(out.columns)
    distances = model.transform(E)[np.arange(E.shape[0]), model.labels_]
    out[free_name("cluster", names)] = model.labels_ + 1
    out[free_name("cluster_distance", names)] = seen.table.column(distances)
    return out


def _page(
    job: Job, seen: Understood, model: Any, E: Any, said: tuple[str, dict[int, float], float, str]
) -> Page:
    lead, tried, stability, divergence = said
    k = model.n_clusters
    if not tried:
        how = "The number was given."
    else:
        how = f"{k} was chosen by silhouettes among 2 to {max(tried)}."
    story = (
        f"Rows were put into {count(k, 'cluster')} so that they lie as near as possible to the "
        f"center of their own ({divergence} divergence; numbers "
        f"{'scaled to the same spread' if divergence == 'squared' else 'as they are'}, missing "
        f"cells at the median). {how}"
    )
    facts = [(str(k), "clusters"), (f"{stability:.2f}", "agreement of other starts (1 = the same)")]
    if tried:
        facts.append((f"{tried[k]:.2f}", "mean silhouette"))
    sections = [
        Section("What was done", [Text(story), *notes(job)]),
        data_section(seen),
        Section("The result", _result(seen, model, E, tried)),
        certificate_section(model),
        Section(
            "How far to trust it",
            [
                (Note if _real(tried, k) else Text)(_stable(stability, k) + _real(tried, k)),
                Text(
                    "k-means finds groups in any table, also in one without any. Round, separate "
                    "clouds in the figure and a silhouette above about 0.5 speak for real groups; "
                    "a silhouette below 0.25 speaks against them."
                ),
            ],
        ),
        repeat_section(job, _code(job, seen, model, divergence)),
    ]
    return Page(f"{seen.table.path.name}, clustered", lead, facts, sections)


def _result(seen: Understood, model: Any, E: Any, tried: dict[int, float]) -> list[Any]:
    blocks: list[Any] = []
    if E.shape[1] > 1 and E.shape[0] > 2:
        x, y = _plane(E).T
        groups = [f"cluster {g + 1}" for g in model.labels_]
        blocks.append(
            Figure(
                cloud(x, y, groups, ("first principal direction", "second")),
                "Rows on the plane in which they differ most, by cluster.",
            )
        )
    if tried:
        svg = bars([f"{k} clusters" for k in tried], list(tried.values()), "mean silhouette")
        blocks.append(
            Figure(svg, "How well rows lie in their clusters, for each number of clusters.")
        )
    numbers = seen.of_kind(NUMBER)[:8]
    if numbers:
        groups = seen.frame[numbers].groupby(model.labels_ + 1).mean()
        lines = [
            (str(g), f"{np.sum(model.labels_ + 1 == g):,}", *(number(v) for v in row))
            for g, row in zip(groups.index, groups.to_numpy(), strict=True)
        ]
        blocks.append(
            Grid(("cluster", "rows", *numbers), lines, "Means of the numbers in each cluster.")
        )
    names = seen.of_kind(CATEGORY, FLAG)[:6]
    if names:
        lines = [
            (str(g), *(_most_frequent(part[n]) for n in names))
            for g, part in seen.frame.groupby(model.labels_ + 1)
        ]
        blocks.append(
            Grid(
                ("cluster", *names),
                lines,
                ("The most frequent value in each cluster, and its share."),
            )
        )
    return blocks


def _most_frequent(cells: Any) -> str:
    """Return the most frequent value and its share of the cells that hold one."""
    shares = cells.value_counts(normalize=True)
    if len(shares) and shares.iloc[0] > 0:
        return f"{shares.index[0]} ({shares.iloc[0]:.0%})"
    return "–"


def _plane(E: Any) -> Array:
    with quiet():
        if hasattr(E, "tocsr"):
            reduce = TruncatedSVD(2, random_state=0)
        else:
            reduce = PCA(2, random_state=0)
        return np.asarray(reduce.fit_transform(E))


def _code(job: Job, seen: Understood, model: Any, divergence: str) -> str:
    return "\n".join(
        [
            "import numpy as np",
            "import pandas as pd",
            encoder_imports(seen),
            "from regfactor import BregmanKMeans",
            "",
            reading_code(seen),
            encoder_code(seen, divergence == "squared"),
            f"model = BregmanKMeans({model.n_clusters}, divergence={divergence!r}, n_init=5, "
            f"random_state={job.settings.seed}).fit(E)",
            "print(model.labels_ + 1)",
        ]
    )
