"""White's thesis (2014), table 6.4: semi-supervised classification of real data."""

from experiments._papers import CLASSIFICATION, CLASSIFICATION_GRID
from experiments._sources import LINK, LINK_WORDS, SECSTR, YEAST
from experiments._tables import Table, misclassified
from experiments._verdicts import ahead, near

LINK_PRINTED = {
    "sup-kernel": "0.207 ± 0.029",
    "LGC": "0.150 ± 0.008",
    "LapSVM": "0.136 ± 0.011",
    "LapRLSC": "0.144 ± 0.016",
    "hard Euc": "0.130 ± 0.007",
    "hard sig": "0.130 ± 0.007",
    "hard softmax": "0.134 ± 0.007",
    "hard sig NC": "0.130 ± 0.007",
    "soft Euc": "0.105 ± 0.007",
    "soft sig": "0.193 ± 0.030",
    "soft softmax": "0.231 ± 0.027",
    "soft sig NC": "0.114 ± 0.006",
}

EXPERIMENT = Table(
    title="semi-supervised classification of real data (White 2014, table 6.4)",
    sources=[YEAST, LINK, SECSTR, LINK_WORDS],
    methods=CLASSIFICATION,
    error=misclassified,
    splits=50,
    notes="Printed: 50 splits; tuned on a portion of the unlabeled rows."
    " Columns link and secstr repeat table 2 of the paper of 2012." + CLASSIFICATION_GRID,
    twins=("aistats-2",),
    claims=[
        ahead("yeast", "hard Euc", "sup-kernel"),
        ahead("yeast", "hard Euc", "LapRLSC"),
        ahead("yeast", "soft sig NC", "soft sig"),
        near("yeast", "hard Euc"),
        near("link", "hard Euc"),
        near("link, words", "hard Euc"),
        near("link", "LapSVM"),
        near("link, words", "LapSVM"),
        ahead("link", "soft Euc", "LapSVM"),
        ahead("secstr", "hard sig", "sup-kernel"),
    ],
    paper={
        "yeast": {
            "sup-kernel": "0.528 ± 0.007",
            "LGC": "0.527 ± 0.006",
            "LapSVM": "0.643 ± 0.005",
            "LapRLSC": "0.515 ± 0.007",
            "hard Euc": "0.487 ± 0.005",
            "hard sig": "0.634 ± 0.006",
            "hard softmax": "0.609 ± 0.004",
            "hard sig NC": "0.581 ± 0.006",
            "soft Euc": "0.564 ± 0.007",
            "soft sig": "0.606 ± 0.012",
            "soft softmax": "0.555 ± 0.007",
            "soft sig NC": "0.502 ± 0.007",
        },
        "link": LINK_PRINTED,
        "link, words": LINK_PRINTED,
        "secstr": {
            "sup-kernel": "0.501 ± 0.007",
            "LGC": "0.476 ± 0.014",
            "LapSVM": "0.479 ± 0.009",
            "LapRLSC": "0.504 ± 0.012",
            "hard Euc": "0.481 ± 0.019",
            "hard sig": "0.445 ± 0.015",
            "hard softmax": "0.503 ± 0.017",
            "hard sig NC": "0.510 ± 0.018",
            "soft Euc": "0.489 ± 0.013",
            "soft sig": "0.481 ± 0.019",
            "soft softmax": "0.481 ± 0.019",
            "soft sig NC": "0.480 ± 0.014",
        },
    },
)
