"""Laws of linear maps on Z: the adjoint, the norm, and the lags of a moving average."""

import numpy as np
import pytest

from catalogue import MAPS, cases, frozen, rng
from regfactor.maps import Identity, Lags

IMAGE = (6, 2)
every_map = pytest.mark.parametrize("map_", cases(MAPS))
every_lag = pytest.mark.parametrize(
    "map_", cases(MAPS, *(name for name in MAPS if name.startswith("lags")))
)


def pair(map_, seed=0):
    """A point of the domain and a point of the image."""
    random = rng(seed)
    return random.normal(size=map_.domain(IMAGE)), random.normal(size=IMAGE)


def as_matrix(map_):
    """The map as a matrix on stacked entries."""
    shape = map_.domain(IMAGE)
    units = np.eye(np.prod(shape)).reshape(-1, *shape)
    return np.array([map_(unit).ravel() for unit in units]).T


@every_map
def test_the_adjoint_moves_the_map_across_the_inner_product(map_):
    W, R = pair(map_)
    assert map_(W).shape == R.shape
    assert map_.adjoint(R).shape == W.shape
    assert (map_(W) * R).sum() == pytest.approx((W * map_.adjoint(R)).sum(), rel=1e-12)


@every_map
def test_maps_are_linear(map_):
    (V, R), (W, Q) = pair(map_, 1), pair(map_, 2)
    np.testing.assert_allclose(map_(2 * V - 3 * W), 2 * map_(V) - 3 * map_(W), atol=1e-12)
    np.testing.assert_allclose(
        map_.adjoint(2 * R - 3 * Q), 2 * map_.adjoint(R) - 3 * map_.adjoint(Q), atol=1e-12
    )


@every_map
def test_norm2_is_the_squared_norm(map_):
    assert map_.norm2 == pytest.approx(np.linalg.norm(as_matrix(map_), 2) ** 2, rel=1e-12)


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


@every_map
def test_nothing_is_mutated_and_float32_stays(map_):
    W, R = pair(map_, 6)
    for dtype in (np.float64, np.float32):
        assert map_(frozen(W.astype(dtype))).dtype == dtype
        assert map_.adjoint(frozen(R.astype(dtype))).dtype == dtype


def test_negative_lags_are_refused():
    with pytest.raises(ValueError):
        Lags(-1)
