"""Where the first report of the papers' tables was unfair to one side: its verdicts, and those of today."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

WAITS = "not run again yet"
HEAD = "| experiment | what was unfair | first verdict | verdict now |\n|---|---|---|---|"
INTRODUCTION = (
    "## Where our first report was unfair\n\n"
    "The tables were first computed with version 0.1. Where our own side or a rival was held back, "
    "or too little was run, this was mended; both verdicts are shown. Those of today are read from "
    "the reports. Where fewer splits were run than at first, a test decides less: their number is "
    "in the tables."
)


@dataclass(frozen=True)
class Correction:
    """A first verdict, why it was unfair, and the claim whose verdict takes its place."""

    experiment: str
    reason: str
    first: str
    claim: str  # how its line in the report of today begins


READOUT = (
    "Targets of reverse regression were read off as imputed; the papers' algorithms end with the "
    "forward model fitted to them."
)
BOUND = (
    "Matrix completion has one norm for inputs and labels; with rows of length one it could not "
    "move labels, while the others had a bound of 10."
)
GRID = (
    "SNF had degrees up to 3, ridges from 0.01 to 1 and 60 iterations at most, of printed degrees "
    "up to 4, ridges from 1e-6 to 10 and 1000; it and LLR alone were held near the range of the "
    "targets."
)
EM = (
    "Each of EM-Kalman's factors was an autoregression of its own, fitted in 50 steps from a start "
    "without noise that EM hardly leaves; they are one of the factor order, and start with noise."
)
CORRECTIONS = (
    Correction(
        "aistats-1",
        READOUT,
        "calhousing, trans-reg is better than semi Euc: best on the grid holds (by 48.5 ± 4.9); "
        "tuned on labels holds (by 34.1 ± 8.4)",
        "calhousing, trans-reg is better than semi Euc, forward",
    ),
    Correction(
        "aistats-1",
        READOUT,
        "puma8nm, sup-kernel is better than semi Euc: best on the grid holds (by 11 ± 0.89); "
        "tuned on labels holds (by 11 ± 1.5)",
        "puma8nm, sup-kernel is better than semi Euc, forward",
    ),
    Correction(
        "thesis-6.2",
        READOUT,
        "calhousing, trans-reg is better than semi cubed: best on the grid holds (by 17.1 ± 4); "
        "tuned on labels holds (by 3.6 ± 7.6)",
        "calhousing, trans-reg is better than semi cubed, forward",
    ),
    Correction(
        "thesis-6.2",
        READOUT,
        "parkinsons, semi Euc is better than sup-kernel: best on the grid does not hold (by -6.76 "
        "± 2.2); tuned on labels not decided (by 12.2 ± 7.6)",
        "parkinsons, semi Euc, forward is better than sup-kernel",
    ),
    *(
        Correction(
            "thesis-6.6",
            BOUND,
            f"{name}, S-RFM is better than GOLDBERG: {first}",
            f"{name}, S-RFM is better than GOLDBERG",
        )
        for name, first in (
            (
                "WBC",
                "best on the grid holds (by 0.282 ± 0.027); tuned on labels holds (by 0.26 ± 0.031)",
            ),
            (
                "IONOSPHERE",
                "best on the grid holds (by 0.0767 ± 0.0094); tuned on labels holds (by 0.0767 ± "
                "0.0094)",
            ),
            (
                "SYNTHETIC",
                "best on the grid holds (by 0.264 ± 0.04); fresh seeds holds (by 0.278 ± 0.041); "
                "tuned on labels holds (by 0.26 ± 0.041)",
            ),
        )
    ),
    Correction(
        "snf-1",
        GRID,
        "5% labeled, SNF has the lowest error of the printed methods on 6 of 11 tables: does not "
        "hold (lowest or tied on 4)",
        "5% labeled, SNF has the lowest error of the printed methods",
    ),
    Correction(
        "snf-2",
        GRID,
        "10% labeled, SNF has the lowest error of the printed methods on 5 of 11 tables: does not "
        "hold (lowest or tied on 3)",
        "10% labeled, SNF has the lowest error of the printed methods",
    ),
    Correction(
        "snf-2",
        "SNFRegressorCV stood for factorizations, and was an average of least squares support "
        "vector machines in 23 of 24 fits.",
        "10% labeled, SNF, cross-validated is no worse than tuned LS-SVM on at least 9 of 11 "
        "tables: holds (10)",
        "10% labeled, SNF, cross-validated is no worse than tuned LS-SVM",
    ),
    Correction(
        "expectation-ssl",
        "ConvexFactorClassifier ran at the thesis' strength, at which nothing is learned on these "
        "sets; other methods ran at one setting of ours.",
        "ConvexFactorClassifier has errors of 43.5 to 47.5 % on g241c, g241n and digit1 with 10 "
        "labels",
        "**ExpectationSVC, default** against ConvexFactorClassifier, default",
    ),
    *(
        Correction(
            "thesis-7.1",
            EM,
            f"{name}, RARMA, tuned has a lower error than EM-Kalman: holds ({first}, n = 30)",
            f"{name}, RARMA, tuned has a lower error than EM-Kalman",
        )
        for name, first in (
            ("n6-p2-q2", "-53.0 %, wins 90%"),
            ("n9-p3-q3", "-51.5 %, wins 97%"),
            ("n12-p3-q3", "-50.4 %, wins 90%"),
            ("n15-p3-q3", "-49.7 %, wins 93%"),
            ("n12-p4-q4", "-49.8 %, wins 83%"),
        )
    ),
    *(
        Correction(
            "thesis-7.2",
            f"{reason} Ten of 79 patches were run.".strip(),
            f"{name}: holds ({first}, n = 10)",
            name,
        )
        for reason, name, first in (
            (
                EM,
                "sst_pacific_cac_anom, RARMA, tuned has a lower error than EM-Kalman",
                "-8.4 %, wins 80%",
            ),
            (
                "",
                "sst_pacific_cac_anom, RARMA, tuned has a lower error than AR(BIC)",
                "-8.7 %, wins 80%",
            ),
        )
    ),
    Correction(
        "thesis-f7.4",
        "RARMA(p, 0) was a ridge VAR; in the thesis innovations of the same time stay.",
        "coefficients A_1..A_p, against RARMA(p, 0): lower error in 30 of 36 cells, higher in 0",
        "coefficients A_1..A_p, against RARMA(p, 0), alpha / alpha_max = 0.1",
    ),
    Correction(
        "thesis-f5.4",
        "LSL was stopped after five times the CPU time of MSL, from one start.",
        "LSL ends above MSL by more than the gap explains in 24 of 25 fits; by 264 % at alpha = 1",
        "alpha = 1:",
    ),
)


def corrections(reports: Mapping[str, str]) -> str:
    """Return the table of first verdicts next to those of today."""
    rows = []
    for each in CORRECTIONS:
        if each.experiment in reports:
            now = verdict_now(each, reports[each.experiment])
            page = f"[{each.experiment}](_generated/claims/{each.experiment}.md)"
            rows.append(f"| {page} | {each.reason} | {each.first} | {now} |")
    if not rows:
        return ""
    return "\n".join([INTRODUCTION, "", HEAD, *rows, ""])


def verdict_now(correction: Correction, report: str) -> str:
    """Return the line of a claim in a report, if the report was computed since commits are kept."""
    commits = re.findall(r"^\d+ cells?, .*Commit: ([^.]*)\.", report, flags=re.MULTILINE)
    if not commits or "not kept" in commits[-1]:
        return WAITS
    start = f"- {correction.claim}"
    lines = [line for line in report.splitlines() if line.startswith(start)]
    if not lines:
        raise ValueError(
            f"The report of {correction.experiment} has no line that begins with {start!r}."
        )
    return "; ".join(line.removeprefix("- ").rstrip(".") for line in lines).replace("|", "\\|")
