"""Laws of linear maps on Z: the adjoint, the norm, and the lags of a moving average."""

import numpy as np
import pytest

from catalogue import MAPS, cases, rng
from regfactor.maps import Identity, Lags
from regfactor.testing import maps as laws_of_maps

IMAGE = (6, 2)
every_map = pytest.mark.parametrize("map_", cases(MAPS))


@pytest.mark.parametrize("law", laws_of_maps.LAWS, ids=lambda law: law.__name__)
@every_map
def test_law(map_, law):
    law(laws_of_maps.MapCase(map_))


every_lag = pytest.mark.parametrize(
    "map_", cases(MAPS, *(name for name in MAPS if name.startswith("lags")))
)


def pair(map_, seed=0):
    """A point of the domain and a point of the image."""
    random = rng(seed)
    return random.normal(size=map_.domain(IMAGE)), random.normal(size=IMAGE)


@every_lag
def test_lags_after_their_adjoint_are_a_multiple_of_the_identity(map_):
    _, R = pair(map_, 3)
    np.testing.assert_allclose(map_(map_.adjoint(R)), (map_.q + 1) * R, atol=1e-12)


@every_lag
def test_lags_sum_the_blocks_of_earlier_rows(map_):
    W, _ = pair(map_, 4)
    q, (samples, n) = map_.q, IMAGE
    expected = np.zeros(IMAGE)
    for t in range(samples):
        for j in range(q + 1):
            expected[t] += W[t + q - j, j * n : (j + 1) * n]
    np.testing.assert_allclose(map_(W), expected, atol=1e-12)


@every_lag
def test_lags_live_on_a_longer_and_wider_matrix(map_):
    samples, n = IMAGE
    assert tuple(map_.domain(IMAGE)) == (samples + map_.q, n * (map_.q + 1))


def test_the_identity_changes_nothing():
    W, R = pair(Identity(), 5)
    np.testing.assert_array_equal(Identity()(W), W)
    np.testing.assert_array_equal(Identity().adjoint(R), R)


def test_negative_lags_are_refused():
    with pytest.raises(ValueError):
        Lags(-1)
