"""A fit that goes on with a given strength where none can be chosen."""

import numpy as np

from regfactor.fitting.fallback import CannotSelect, fit_or_default


class Model:
    """A model whose strength cannot be chosen, which keeps what it was fitted to."""

    def __init__(self):
        self.alpha = "auto"

    def get_params(self):
        return {"alpha": self.alpha}

    def set_params(self, alpha):
        self.alpha = alpha

    def fit(self, X, lower=None):
        if self.alpha == "auto":
            raise CannotSelect("nothing to choose", "There is too little")
        self.fitted = (X, lower)


def test_arguments_of_the_fit_are_kept_where_no_strength_can_be_chosen():
    model = Model()
    X = np.eye(2)
    assert fit_or_default(model, X, lower=-X) == "There is too little"
    assert model.alpha == 1.0
    np.testing.assert_array_equal(model.fitted, (X, -X))
