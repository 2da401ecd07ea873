"""Evidence from few labels and from the past: folds, twins, losses, conformal sets, backtests."""

from regfactor.model_selection.compare import Comparison, compare_with_supervised
from regfactor.model_selection.conformal import Conformal
from regfactor.model_selection.folds import LabeledKFold
from regfactor.model_selection.held_out import Coverage
from regfactor.model_selection.sensitivity import Sensitivity, constraint_sensitivity
from regfactor.model_selection.variance import LossEstimate, ModelSpan, labeled_loss
from regfactor.series.backtest import Backtest, backtest

__all__ = [
    "Backtest",
    "Comparison",
    "Conformal",
    "Coverage",
    "LabeledKFold",
    "LossEstimate",
    "ModelSpan",
    "Sensitivity",
    "backtest",
    "compare_with_supervised",
    "constraint_sensitivity",
    "labeled_loss",
]
