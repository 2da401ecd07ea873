"""White's thesis (2014), table 6.1: semi-supervised regression on generated data."""

from experiments._papers import (
    MEAN,
    OUR_REGRESSOR,
    REGRESSION_GRID,
    REVERSE_REGRESSION,
    SUP_REGRESSION,
    TRANS_REG,
)
from experiments._sources import synthetic_regression
from experiments._tables import Table, squared_error
from experiments._verdicts import ahead, below

EXPERIMENT = Table(
    title="semi-supervised regression on generated data (White 2014, table 6.1)",
    sources=[*map(synthetic_regression, ("syn-gauss", "syn-cubed", "syn-exp"))],
    methods=[MEAN, SUP_REGRESSION, TRANS_REG, *REVERSE_REGRESSION, OUR_REGRESSOR],
    error=squared_error,
    splits=50,
    notes="Printed: 50 splits; tuned on a portion of the unlabeled rows." + REGRESSION_GRID,
    twins=("aistats-1",),
    claims=[
        below("syn-gauss", "semi Euc", 1e-20),
        below("syn-cubed", "semi cubed", 1e-20),
        below("syn-exp", "semi exp", 1e-20),
        ahead("syn-cubed", "semi cubed", "sup-kernel"),
        ahead("syn-cubed", "semi cubed", "semi Euc"),
        ahead("syn-exp", "semi exp", "sup-kernel"),
        ahead("syn-exp", "semi exp", "semi Euc"),
    ],
    paper={
        "syn-gauss": {
            "sup-kernel": "2e-14 ± 4.4e-15",
            "trans-reg": "3e-06 ± 8.9e-07",
            "semi Euc": "6e-31 ± 8.9e-32",
            "semi cubed": "1.91 ± 0.752",
            "semi exp": "unstable",
        },
        "syn-cubed": {
            "sup-kernel": "0.246 ± 0.030",
            "trans-reg": "0.244 ± 0.030",
            "semi Euc": "0.120 ± 0.003",
            "semi cubed": "3e-5 ± 2.6e-06",
            "semi exp": "unstable",
        },
        "syn-exp": {
            "sup-kernel": "408 ± 116.9",
            "trans-reg": "1039 ± 136.2",
            "semi Euc": "1423 ± 95.61",
            "semi cubed": "348.1 ± 34.03",
            "semi exp": "1.7e-4 ± 0.000",
        },
    },
)
