"""Laws of losses: every line of the catalogue obeys its own definition."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, gamma
from sklearn.base import clone

from catalogue import COMPOSITE, LOSSES, cases
from regfactor import losses
from regfactor.core.params import choose
from regfactor.losses import (
    KL,
    Absolute,
    Binomial,
    Huber,
    Logistic,
    Multinomial,
    Ordinal,
    Poisson,
    Robust,
    SmoothedHinge,
    SmoothedL1,
    Softmax,
    Squared,
    as_loss,
)
from regfactor.testing import losses as laws_of_losses
from regfactor.testing.draws import draw, numbers_like
from regfactor.testing.laws import rng

EVALUATED = {name: loss for name, loss in LOSSES.items() if name not in COMPOSITE}
ELEMENTWISE = {name: loss for name, loss in EVALUATED.items() if not loss.rowwise}
EXPONENTIAL = (
    "poisson",
    "gamma_log",
    "exponential",
    "weibull",
)  # infinite from a link of about 710 on
ENDING_LINK = ("kl", "gamma")

every_loss = pytest.mark.parametrize("loss", cases(EVALUATED))


@pytest.mark.parametrize("law", laws_of_losses.LAWS, ids=lambda law: law.__name__)
@every_loss
def test_law(loss, law):
    law(laws_of_losses.LossCase(loss))


def total(loss, values):
    """Per entry, or per row where the loss couples a row."""
    return values.sum(axis=-1) if loss.rowwise else values


def is_unbounded(loss):
    _, x = draw(loss)
    return not any(np.isfinite(end).any() for end in loss.dual_domain(x))


# A y that no z reaches, by hand.
OUTSIDE = {
    "huber": lambda x: np.full_like(x, -0.81),
    "smoothed_l1": lambda x: np.full_like(x, 1.01),
    "absolute": lambda x: np.full_like(x, -1.01),
    "quantile": lambda x: np.full_like(x, -0.31),
    "smoothed_quantile": lambda x: np.full_like(x, 0.71),
    "logistic": lambda x: 1.01 - x,
    "poisson": lambda x: -x - 0.01,
    "negative_binomial": lambda x: np.full_like(x, 2.51),
    "gamma_log": lambda x: np.full_like(x, 1.01),
    "exponential": lambda x: np.full_like(x, 1.01),
    "weibull": lambda x: np.full_like(x, 1.21),
    "gamma": lambda x: -x - 0.01,
    "binomial": lambda x: 4.01 - x,
    "multinomial": lambda x: np.where(np.arange(x.shape[1]) == 0, 0.1, 0.0) + np.zeros_like(x),
    "softmax": lambda x: np.where(np.arange(x.shape[1]) == 0, 1.1, 0.0) + np.zeros_like(x),
    "hinge": lambda x: 0.01 * x,
    "smoothed_hinge": lambda x: -1.01 * x,
    "squared_hinge": lambda x: 0.01 * x,
    "ordinal": lambda x: 4.01 - x,
    "kl": lambda x: np.full_like(x, 1.01),
    "robust_squared": lambda x: np.full_like(x, 0.71),
    "robust_logistic": lambda x: np.full_like(x, -0.31),
    "robust_poisson": lambda x: np.full_like(x, 0.91),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_conjugate_is_infinite_outside_its_domain(name):
    loss = LOSSES[name]
    _, x = draw(loss)
    assert np.all(total(loss, loss.conjugate(OUTSIDE[name](x), x)) == np.inf)


def test_losses_with_an_outside_have_a_bounded_dual_domain():
    whole = [name for name, loss in ELEMENTWISE.items() if is_unbounded(loss)]
    assert "squared" in whole and not set(whole) & set(OUTSIDE)


@pytest.mark.parametrize(
    ("name", "curvature"),
    {
        "squared": 1.0,
        "huber": 1.0,
        "smoothed_l1": 1 / 0.3,
        "logistic": 0.25,
        "binomial": 1.0,
        "poisson": np.inf,
        "gamma_log": np.inf,
        "gamma": np.inf,
        "kl": np.inf,
        "smoothed_hinge": 1 / 0.6,
        "squared_hinge": 2.0,
        "robust_squared": 1.0,
        "robust_logistic": 0.25,
    }.items(),
)
def test_curvature_is_that_of_the_table(name, curvature):
    assert LOSSES[name].curvature == pytest.approx(curvature)


def test_curvature_of_a_row_loss_bounds_the_whole_hessian():
    x = np.array([[1.0, 0.0]])  # at z = 0 the Hessian diag(p) - pp' has the eigenvalue 1/2
    move = np.array([[1e-4, -1e-4]])
    slope = np.linalg.norm(
        Softmax().gradient(move, x) - Softmax().gradient(-move, x)
    ) / np.linalg.norm(2 * move)
    assert slope == pytest.approx(0.5, abs=1e-6)
    assert slope * (1 - 1e-6) <= Softmax().curvature <= 1.0


@pytest.mark.parametrize("name", [name for name in EVALUATED if name not in ENDING_LINK])
@pytest.mark.parametrize("z", [-800.0, -40.0, 40.0, 800.0])
def test_extreme_links_give_numbers(name, z):
    loss = EVALUATED[name]
    _, x = draw(loss, seed=23)
    at = numbers_like(x)
    at[:, : 1 if loss.rowwise else None] = z  # a row loss sees one extreme among zeros
    results = [method(at, x) for method in (loss.value, loss.gradient, loss.hessian)]
    assert not any(np.isnan(result).any() for result in results)
    if name not in EXPONENTIAL or abs(z) < 100:
        assert all(np.isfinite(result).all() for result in results)
        assert np.isfinite(loss.predict(at)).all() or "poisson" in name


@pytest.mark.parametrize("loss", cases(LOSSES))
def test_losses_are_cloned_by_their_parameters(loss):
    copy = clone(loss)
    assert copy is not loss
    assert copy == loss
    assert type(loss)(**loss.get_params(deep=False)) == loss


def test_parameters_nest():
    loss = Robust(Huber(delta=2.0), beta=0.5)
    assert loss.get_params()["loss__delta"] == 2.0
    loss.set_params(loss__delta=3.0, beta=0.7)
    assert loss == Robust(Huber(delta=3.0), beta=0.7)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([slice(0, 3), [2]], r"loss; columns \[2\] have several\.$"),
        ([[0], [1]], r"loss; columns \[2\] have none\.$"),
        ([[0], [0]], r"loss; columns \[1, 2\] have none, columns \[0\] have several\.$"),
    ],
)
def test_columns_with_no_loss_and_with_several_are_told_apart(columns, message):
    with pytest.raises(ValueError, match=message):
        losses.as_loss([(at, "squared") for at in columns]).parts(3)


def test_losses_with_other_parameters_differ():
    assert Huber(1.0) != Huber(2.0)
    assert Huber(1.0) != Squared()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("KL", "kl"),
        ("Squared", "squared"),
        ("hubber", "huber"),
        ("uhber", "huber"),
        ("abs", "absolute"),
    ]
    + [(["squared"], "squared")]
    + [(name, None) for name in ("normal", "l2", "", "mse")],
)
def test_an_unknown_name_is_answered_with_one_that_is_near(name, meant):
    with pytest.raises(ValueError, match="Unknown loss") as caught:
        choose(name, losses.LOSSES, "loss")
    assert (
        (f"Did you mean {meant!r}?" in str(caught.value))
        if meant
        else "mean" not in str(caught.value)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Huber(delta=0.0),
        lambda: Huber(delta=-1.0),
        lambda: Huber(delta=np.nan),
        lambda: SmoothedL1(sigma=0.0),
        lambda: SmoothedHinge(gamma=-0.5),
        lambda: Binomial(trials=0),
        lambda: Ordinal(levels=1),
        lambda: Robust(Squared(), beta=-1.0),
    ],
)
def test_illegal_parameters_are_refused(make):
    with pytest.raises(ValueError):
        make()


# --- equivalences ---------------------------------------------------------------------------------


def test_robust_squared_is_huber():
    z, x = draw(Squared(), seed=31)
    for method in ("value", "gradient", "hessian"):
        robust = getattr(Robust(Squared(), beta=0.7), method)(z, x)
        np.testing.assert_allclose(robust, getattr(Huber(0.7), method)(z, x), atol=1e-12)
    y = rng(32).uniform(-0.7, 0.7, z.shape)
    np.testing.assert_allclose(
        Robust(Squared(), 0.7).conjugate(y, x), Huber(0.7).conjugate(y, x), atol=1e-12
    )


@every_loss
def test_a_robust_loss_takes_and_words_the_data_of_its_part(loss):
    if loss.rowwise:
        pytest.skip("a robust loss is one of single entries")
    z, x = draw(loss, seed=34)
    if x.dtype.names is not None:
        pytest.skip("cells have no unit to shift")
    robust = Robust(loss, beta=0.7)
    assert robust.domain_text == loss.domain_text
    np.testing.assert_array_equal(robust.legal(x + 0.25), loss.legal(x + 0.25))


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_the_losses_of_exponentials_rise_for_ever(name):
    loss, sign = LOSSES[name], 1.0 if name == "poisson" else -1.0
    z = sign * np.array([250.0, 299.0, 301.0, 1e3, 1e9, 1e100])
    for x in (1.0, 1e20):
        values = loss.value(z, np.full_like(z, x))
        assert (np.diff(values) > 0).all() and np.isfinite(values).all()
        expanded = [np.empty_like(z) for _ in range(3)]
        loss.expand(z, np.full_like(z, x), *expanded)
        np.testing.assert_allclose(expanded[0], values)


def test_smoothed_l1_is_a_rescaled_huber():
    z, x = draw(Squared(), seed=33)
    for sigma in (0.05, 0.3, 2.0):
        np.testing.assert_allclose(
            SmoothedL1(sigma).value(z, x), Huber(sigma).value(z, x) / sigma, atol=1e-12
        )
        np.testing.assert_allclose(
            SmoothedL1(sigma).gradient(z, x), Huber(sigma).gradient(z, x) / sigma, atol=1e-12
        )


def test_smoothed_l1_tends_to_the_absolute_loss():
    z, x = draw(Squared(), seed=34)
    np.testing.assert_allclose(SmoothedL1(1e-9).value(z, x), Absolute().value(z, x), atol=1e-9)


def test_binomial_with_one_trial_is_logistic():
    z, x = draw(Logistic(), seed=35)
    x = np.round(x)
    for method in ("value", "gradient", "hessian"):
        np.testing.assert_allclose(
            getattr(Binomial(1), method)(z, x), getattr(Logistic(), method)(z, x), atol=1e-12
        )


def test_ordinal_with_two_levels_is_a_shifted_logistic():
    z, x = draw(Ordinal(2), seed=36)
    np.testing.assert_allclose(
        Ordinal(2).gradient(z, x), Logistic().gradient(z - 0.5, x), atol=1e-12
    )


def test_multinomial_rows_of_total_one_are_softmax():
    z, x = draw(Softmax(), seed=37)
    for method in ("value", "gradient", "hessian"):
        multinomial = getattr(Multinomial(), method)(z, x)
        np.testing.assert_allclose(multinomial, getattr(Softmax(), method)(z, x), atol=1e-12)


@pytest.mark.parametrize(
    "loss", cases(EVALUATED, "robust_squared", "robust_logistic", "robust_poisson")
)
def test_robust_minimizes_over_the_outlier(loss):
    z, x = draw(loss, seed=38, shape=(12, 2))
    best = np.empty_like(z)
    for index, at in np.ndenumerate(z):
        data = np.array([x[index]])

        def explicit(s, at=at, data=data):
            return loss.loss.value(np.array([at + s]), data)[0] + loss.beta * abs(s)

        best[index] = min(
            minimize_scalar(explicit, bounds=(-12, 12), method="bounded").fun, explicit(0.0)
        )
    np.testing.assert_allclose(loss.value(z, x), best, atol=1e-8)


@pytest.mark.parametrize(
    "loss", cases(EVALUATED, "robust_squared", "robust_logistic", "robust_poisson")
)
def test_robust_clips_the_gradient_and_the_conjugate(loss):
    z, x = draw(loss, seed=39)
    clipped = np.clip(loss.loss.gradient(z, x), -loss.beta, loss.beta)
    np.testing.assert_allclose(loss.gradient(z, x), clipped, atol=1e-12)
    y = rng(40).uniform(-1, 1, z.shape)
    expected = np.where(np.abs(y) <= loss.beta, loss.loss.conjugate(y, x), np.inf)
    np.testing.assert_allclose(loss.conjugate(y, x), expected, atol=1e-12)


# --- values by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "z", "x", "value"),
    [
        ("squared", 3.0, 1.0, 2.0),
        ("huber", 3.0, 1.0, 0.8 * 2 - 0.32),
        ("smoothed_l1", 3.0, 1.0, 2 - 0.15),
        ("absolute", 3.0, 1.0, 2.0),
        ("quantile", 3.0, 1.0, 1.4),
        ("quantile", 1.0, 3.0, 0.6),
        ("negative_binomial", 0.0, 3.0, 5.5 * np.log(3.5)),
        ("exponential", 0.0, 3.0, 3.0),
        ("weibull", 0.0, 3.0, 3.0**1.2),
        ("logistic", 0.0, 1.0, np.log(2)),
        ("poisson", 0.0, 3.0, 1.0),
        ("gamma_log", 0.0, 3.0, 3.0),
        ("gamma", -1.0, 3.0, 3.0),
        ("binomial", 0.0, 3.0, 4 * np.log(2)),
        ("hinge", -0.5, 1.0, 1.5),
        ("smoothed_hinge", -0.5, 1.0, 1.5 - 0.3),
        ("squared_hinge", -0.5, 1.0, 2.25),
        ("kl", 1.0, 2.0, 2 * np.log(2) - 1),
        ("kl", 0.0, 0.0, 0.0),
        ("kl", 0.0, 2.0, np.inf),
        ("kl", 3.0, 0.0, 3.0),
    ],
)
def test_values_by_hand(name, z, x, value):
    assert LOSSES[name].value(np.array([z]), np.array([x]))[0] == pytest.approx(value, abs=1e-12)


def test_row_values_sum_to_the_loss_of_the_row():
    z, x = np.log([[1.0, 2.0, 5.0]]), np.array([[1.0, 0.0, 2.0]])
    assert Multinomial().value(z, x).sum() == pytest.approx(3 * np.log(8) - 2 * np.log(5))
    assert Softmax().value(z, np.array([[0.0, 1.0, 0.0]])).sum() == pytest.approx(
        np.log(8) - np.log(2)
    )


def test_ordinal_counts_thresholds():
    loss = Ordinal(levels=4)  # thresholds 1/2, 3/2, 5/2
    z = np.array([-3.0, 0.4, 0.6, 1.6, 2.4, 9.0])
    np.testing.assert_array_equal(loss.predict(z), [0, 0, 1, 2, 2, 3])
    expected = sum(np.logaddexp(0, 1.0 - t) for t in (0.5, 1.5, 2.5)) - 2 * 1.0 + 0.5 + 1.5
    assert loss.value(np.array([1.0]), np.array([2.0]))[0] == pytest.approx(expected)


def test_ordinal_is_the_sum_of_threshold_losses():
    z, x = draw(Ordinal(5), seed=42)
    parts = sum(Logistic().value(z - (k + 0.5), (x > k).astype(float)) for k in range(4))
    np.testing.assert_allclose(Ordinal(5).value(z, x), parts, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "mean"),
    {
        "squared": lambda z: z,
        "huber": lambda z: z,
        "absolute": lambda z: z,
        "logistic": expit,
        "poisson": np.exp,
        "gamma_log": np.exp,
        "negative_binomial": np.exp,
        "exponential": np.exp,
        "weibull": lambda z: gamma(1 + 1 / 1.2) * np.exp(z),
        "quantile": lambda z: z,
        "gamma": lambda z: -1 / z,
        "binomial": lambda z: 4 * expit(z),
        "kl": lambda z: z,
        "hinge": np.sign,
        "squared_hinge": np.sign,
        "robust_logistic": expit,
    }.items(),
)
def test_prediction_is_the_mean_or_the_class(name, mean):
    loss = LOSSES[name]
    z, _ = draw(loss, seed=43)
    np.testing.assert_allclose(loss.predict(z), mean(z), rtol=1e-12)


@pytest.mark.parametrize(
    "loss", cases(EVALUATED, "squared", "logistic", "poisson", "kl", "gamma_log", "gamma", "huber")
)
def test_the_data_fit_best_where_they_are_predicted(loss):
    z, _ = draw(loss, seed=44)
    x = loss.predict(z)
    np.testing.assert_allclose(loss.gradient(z, x), 0, atol=1e-12)


def test_kl_prox_of_empty_counts_stops_at_zero():
    prox = KL().prox(np.array([-2.0, 0.5, 3.0]), 1.0, np.zeros(3))
    np.testing.assert_allclose(prox, [0.0, 0.0, 2.0], atol=1e-12)


def test_poisson_counts_of_zero_have_a_conjugate_at_the_boundary():
    assert Poisson().conjugate(np.array([-3.0, 0.0]), np.array([3.0, 0.0])) == pytest.approx(
        [0.0, 0.0]
    )


# --- names and tables -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    "squared huber smoothed_l1 absolute logistic poisson gamma_log binomial multinomial softmax "
    "hinge smoothed_hinge"
    " squared_hinge ordinal kl".split(),
)
def test_every_public_string_names_a_loss(name):
    assert as_loss(name) == type(as_loss(name))()
    assert type(as_loss(name)) is type(LOSSES[name])


def test_a_loss_is_its_own_specification():
    loss = Huber(2.0)
    assert as_loss(loss) is loss


def test_a_misspelled_loss_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="'?huber'?"):
        as_loss("hubber")


@pytest.mark.parametrize("loss", cases(EVALUATED))
def test_one_loss_covers_all_columns(loss):
    ((columns, part),) = loss.parts(4)
    assert part == loss
    np.testing.assert_array_equal(np.arange(4)[columns], np.arange(4))


def test_a_list_of_columns_and_losses_is_stacked():
    stacked = as_loss([([0, 2], "squared"), ([1], Logistic())])
    found = {tuple(np.arange(3)[columns]): part for columns, part in stacked.parts(3)}
    assert found == {(0, 2): Squared(), (1,): Logistic()}


def test_a_dictionary_of_columns_is_stacked():
    stacked = as_loss({0: "squared", 1: "logistic", 2: "squared"})
    owner = {
        int(j): type(part) for columns, part in stacked.parts(3) for j in np.arange(3)[columns]
    }
    assert owner == {0: Squared, 1: Logistic, 2: Squared}
