"""White's thesis (2014), table 6.2: semi-supervised regression on real data."""

from experiments._papers import (
    LAP_RLS,
    MEAN,
    OUR_REGRESSOR,
    REGRESSION_GRID,
    REVERSE_REGRESSION,
    SUP_REGRESSION,
    TRANS_REG,
)
from experiments._sources import CALIFORNIA, KIN, PARKINSONS
from experiments._tables import Table, squared_error
from experiments._verdicts import ahead, near

EXPERIMENT = Table(
    title="semi-supervised regression on real data (White 2014, table 6.2)",
    sources=[KIN, PARKINSONS, CALIFORNIA],
    methods=[MEAN, SUP_REGRESSION, TRANS_REG, LAP_RLS, *REVERSE_REGRESSION, OUR_REGRESSOR],
    error=squared_error,
    splits=50,
    notes="Printed: 50 splits; tuned on a portion of the unlabeled rows." + REGRESSION_GRID,
    twins=("aistats-1",),
    claims=[
        near("kin32fh", "Lap-RLS"),
        near("calhousing", "Lap-RLS"),
        near("parkinsons", "Lap-RLS"),
        ahead("kin32fh", "semi cubed", "Lap-RLS"),
        ahead("kin32fh", "semi exp", "Lap-RLS"),
        ahead("kin32fh", "semi exp", "semi Euc"),
        ahead("parkinsons", "Lap-RLS", "semi Euc"),
        ahead("parkinsons", "semi Euc", "sup-kernel"),
        ahead("calhousing", "semi cubed", "semi Euc"),
        ahead("calhousing", "trans-reg", "semi cubed"),
        ahead("kin32fh", "semi exp, forward", "Lap-RLS"),
        ahead("parkinsons", "Lap-RLS", "semi Euc, forward"),
        ahead("kin32fh", "semi cubed, forward", "Lap-RLS"),
        ahead("parkinsons", "semi Euc, forward", "sup-kernel"),
        ahead("calhousing", "trans-reg", "semi Euc, forward"),
        ahead("calhousing", "trans-reg", "semi cubed, forward"),
    ],
    paper={
        "kin32fh": {
            "sup-kernel": "0.305 ± 0.010",
            "trans-reg": "0.327 ± 0.009",
            "Lap-RLS": "0.199 ± 0.005",
            "semi Euc": "0.269 ± 0.006",
            "semi cubed": "0.185 ± 0.004",
            "semi exp": "0.186 ± 0.004",
        },
        "parkinsons": {
            "sup-kernel": "89.89 ± 2.951",
            "trans-reg": "98.19 ± 3.630",
            "Lap-RLS": "75.02 ± 0.9897",
            "semi Euc": "79.03 ± 1.391",
            "semi cubed": "213.8 ± 67.05",
            "semi exp": "unstable",
        },
        "calhousing": {
            "sup-kernel": "134.2 ± 1.721",
            "trans-reg": "119.6 ± 4.758",
            "Lap-RLS": "127.3 ± 1.486",
            "semi Euc": "134.7 ± 1.635",
            "semi cubed": "131.8 ± 1.721",
            "semi exp": "147.5 ± 2.269",
        },
    },
)
