"""What new users give to `fit`: a right answer, or an error that says what to give instead."""

from types import SimpleNamespace

import numpy as np
import pytest

import regfactor
from regfactor import AutoImputer, ConvexSubspace, TwoViewSubspace


class Annotated(SimpleNamespace):
    """What AnnData looks like to a library that does not know it."""

    def __len__(self):
        return 3


@pytest.mark.parametrize("estimator", [ConvexSubspace, AutoImputer], ids=lambda cls: cls.__name__)
def test_annotated_tables_are_refused_with_those_they_hold(estimator):
    adata = Annotated(X=np.eye(3), obs_names=["a", "b", "c"], layers={"counts": np.eye(3)})
    with pytest.raises(ValueError, match=r"adata.X or layers\['counts'\], or adata.to_df\(\)"):
        estimator().fit(adata)


def test_a_third_view_is_refused_by_the_estimator_that_takes_it():
    A, B, C = np.random.default_rng(0).normal(size=(3, 12, 4))
    with pytest.raises(ValueError, match=r"MultiViewSubspace\(\).fit\(\[X1, X2, X3\]\)"):
        TwoViewSubspace().fit(A, B, C)


def test_the_package_shows_public_names_only():
    shown = {name for name in dir(regfactor) if not name.startswith("__")}
    assert shown == {*regfactor.__all__, *regfactor.PACKAGES}
