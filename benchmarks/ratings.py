"""Star ratings: MovieLens where REGFACTOR_DATA has it, else a table of its shape.

Ours against biases, CMF and SVD.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse

from benchmarks._peers import QUICK, cpu, installed, table, versions
from regfactor import ConvexSubspace

# the names that MovieLens gives its tables, plain or gzipped
FILES = (
    "ratings.csv",
    "ratings.dat",
    "u.data",
)
LOWEST, HIGHEST, STEP = 0.5, 5.0, 0.5
HELD_OUT, VALIDATION = 0.1, 0.05
DAMPING = (15.0, 10.0)  # ratings of the mean that a user and an item begin with
SWEEPS, ATOMS, TOL, TIME_LIMIT = 10, 40, 1e-3, 600
STRENGTHS = tuple(120 * 1.5**-j for j in range(10))  # tried from the strongest on
BLOCK = 2_000_000  # numbers held at once
SMALL = 2_000_000  # ratings up to which a table is run whole at once, and fits are repeated
REPEATS = 3  # of all fits of such a table in turn; the least CPU time of each counts
FEW_SWEEPS = 5  # of CMF, about as many as ours takes


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who rated what how: three equally long columns."""

    users: np.ndarray
    items: np.ndarray
    stars: np.ndarray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.stars)

    def take(self, which: np.ndarray) -> Ratings:
        """Return some of the ratings of the same table."""
        return Ratings(self.users[which], self.items[which], self.stars[which], self.shape)

    def tenth(self) -> Ratings:
        """Return the ratings of every tenth user."""
        some = self.take(self.users % 10 == 0)
        return Ratings(
            some.users // 10,
            some.items,
            some.stars,
            (int(some.users.max()) // 10 + 1, self.shape[1]),
        )

    def split(self, share: float, seed: int) -> tuple[Ratings, Ratings]:
        """Return the ratings without and those of a random share."""
        out = np.random.default_rng(seed).random(len(self)) < share
        return self.take(~out), self.take(out)

    def sparse(self, stars: np.ndarray) -> scipy.sparse.csr_array:
        """Return a table with the given numbers in place of the stars."""
        return scipy.sparse.csr_array((stars, (self.users, self.items)), shape=self.shape)


# --- data
# -------------------------------------------------------------------------------------------------------------


def found() -> Path | None:
    """Return the first MovieLens table below REGFACTOR_DATA."""
    root = os.environ.get("REGFACTOR_DATA")
    names = {name + end for name in FILES for end in ("", ".gz")}
    return (
        next((path for path in sorted(Path(root).rglob("*")) if path.name in names), None)
        if root
        else None
    )


def read(path: Path) -> Ratings:
    """Return the ratings of a MovieLens file, whatever its separator.

    Users and items are numbered anew.
    """

    def lines() -> Iterator[str]:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            for line in file:
                if line[0].isdigit():  # not the line of names
                    yield line.replace("::", ",").replace("\t", ",")

    columns = np.loadtxt(lines(), delimiter=",", usecols=(0, 1, 2), ndmin=2)
    (_, users), (_, items) = (np.unique(columns[:, j], return_inverse=True) for j in (0, 1))
    shape = int(users.max()) + 1, int(items.max()) + 1
    return Ratings(users.astype(np.int32), items.astype(np.int32), columns[:, 2], shape)


@dataclass(frozen=True)
class StandIn:
    """A table like MovieLens 10M in shape, in counts, in the spread of its biases and in the strength of its tastes."""

    users: int = 72_000
    items: int = 10_000
    ratings: int = 10_000_000
    tastes: int = 30
    seed: int = 0

    def draw(self) -> Ratings:
        """Return the ratings."""
        rng = np.random.default_rng(self.seed)
        appeal = rng.normal(size=self.items)
        users, items = self._pairs(np.exp(2.0 * appeal), rng)
        stars = self._stars(users, items, appeal, rng)
        return Ratings(users, items, stars, (self.users, self.items))

    def _pairs(
        self, popularity: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return distinct pairs: a user rates the items whose exponential clocks ring before the user is through."""
        rates = (popularity / popularity.sum()).astype(np.float32)
        patience = self._patience(rates, rng)
        rows = BLOCK // self.items
        users, items = [], []
        for start in range(0, self.users, rows):
            block = patience[start : start + rows, None].astype(np.float32)
            user, item = np.nonzero(
                rng.standard_exponential((len(block), self.items), np.float32) < block * rates
            )
            users.append((user + start).astype(np.int32))
            items.append(item.astype(np.int32))
        return np.concatenate(users), np.concatenate(items)

    def _patience(self, rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return how long each user goes on: so that counts are log-normal from 20 ratings on, like MovieLens's."""
        per_user = self.ratings / self.users
        wanted = np.exp(1.25 * rng.normal(size=self.users))
        for _ in range(20):  # the limits change the mean
            wanted *= per_user / wanted.mean()
            wanted = np.clip(wanted, min(20, per_user / 2), 0.7 * self.items)
        grid = np.geomspace(1, 1e8, 300)
        expected = np.array([-np.expm1(-patience * rates.astype(float)).sum() for patience in grid])
        return np.interp(wanted, expected, grid)

    def _stars(
        self, users: np.ndarray, items: np.ndarray, appeal: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return biases, tastes of falling strength and noise, rounded to half stars."""
        strength = np.arange(1.0, self.tastes + 1) ** -0.5
        strength *= 0.5 / np.linalg.norm(strength)  # a taste moves a rating by half a star
        U = rng.normal(size=(self.users, self.tastes)) * strength
        V = rng.normal(size=(self.items, self.tastes))
        # popular films are liked more
        of_item = 3.15 + 0.25 * appeal + 0.35 * rng.normal(size=self.items)
        of_user = 0.43 * rng.normal(size=self.users)
        stars = (
            of_item[items]
            + of_user[users]
            + products(U, V, users, items)
            + 0.7 * rng.normal(size=len(users))
        )
        return np.clip(np.rint(stars / STEP) * STEP, LOWEST, HIGHEST)


def products(U: np.ndarray, V: np.ndarray, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the inner products of rows of U with rows of V, pair by pair."""
    out, step = np.empty(len(users)), max(1, BLOCK // max(1, U.shape[1]))
    for start in range(0, len(users), step):
        some = slice(start, start + step)
        out[some] = np.einsum("ij,ij->i", U[users[some]], V[items[some]])
    return out


# --- models: each learns from ratings and predicts those of pairs of users and items
# ----------------------------------


@dataclass(frozen=True, eq=False)
class Fitted:
    """A function of users and items, and what is to be said about it."""

    predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
    note: str = ""

    def rmse(self, test: Ratings) -> float:
        """Return the error on ratings, predictions clipped to the scale."""
        stars = np.clip(self.predict(test.users, test.items), LOWEST, HIGHEST)
        return float(np.sqrt(np.square(stars - test.stars).mean()))


def biases(train: Ratings) -> Fitted:
    """Mean + user + item, both damped: ten alternating sweeps."""
    mean, left = train.stars.mean(), train.stars - train.stars.mean()
    of_user, of_item = np.zeros(train.shape[0]), np.zeros(train.shape[1])
    for _ in range(SWEEPS):
        of_item = damped_means(train.items, left - of_user[train.users], train.shape[1], DAMPING[1])
        of_user = damped_means(train.users, left - of_item[train.items], train.shape[0], DAMPING[0])
    return Fitted(lambda users, items: mean + of_user[users] + of_item[items])


def damped_means(groups: np.ndarray, values: np.ndarray, count: int, damping: float) -> np.ndarray:
    """Return the mean of each group, drawn to zero as if it had `damping` more zeros."""
    return np.bincount(groups, values, count) / (np.bincount(groups, minlength=count) + damping)


def ours_on_user_means(train: Ratings, alpha: float, max_rank: int | None = None) -> Fitted:
    """ConvexSubspace with item offsets on what the users' damped means leave."""
    mean = train.stars.mean()
    of_user = damped_means(train.users, train.stars - mean, train.shape[0], DAMPING[0])
    left = train.stars - mean - of_user[train.users]
    model = ConvexSubspace(
        alpha=alpha,
        scale=False,
        tol=TOL,
        max_rank=max_rank,
        time_limit=TIME_LIMIT,
        random_state=0,
    )
    model.fit(train.sparse(left))
    return Fitted(
        lambda users, items: mean + of_user[users] + predicted(model, users, items),
        described_fit(model),
    )


def ours_on_biases(train: Ratings, alpha: float, max_rank: int | None = None) -> Fitted:
    """ConvexSubspace on what the biases leave."""
    base = biases(train).predict
    left = train.stars - base(train.users, train.items)
    model = ConvexSubspace(
        alpha=alpha,
        fit_intercept=False,
        scale=False,
        tol=TOL,
        max_rank=max_rank,
        time_limit=TIME_LIMIT,
        random_state=0,
    ).fit(train.sparse(left))
    return Fitted(
        lambda users, items: base(users, items) + predicted(model, users, items),
        described_fit(model),
    )


def predicted(model: ConvexSubspace, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return what a model says about pairs of users and items."""
    return products(model.codes_, model.components_.T, users, items) + model.intercept_[items]


def described_fit(model: ConvexSubspace) -> str:
    """Say how near to the optimum a model is, and with how many atoms."""
    return (
        f"{len(model.components_)} atoms, relative gap {model.relative_gap_:.1e}, "
        f"{model.status_.name}"
    )


def cmf(train: Ratings, strength: float, sweeps: int = 10) -> Fitted:
    """cmfrec's CMF: the same objective with ATOMS atoms and penalized biases, by alternating ridge regression."""
    from cmfrec import CMF

    model = CMF(
        k=ATOMS,
        lambda_=strength,
        niter=sweeps,
        nthreads=1,
        precompute_for_predictions=False,
        verbose=False,
    )
    model.fit(scipy.sparse.coo_matrix((train.stars, (train.users, train.items)), shape=train.shape))
    return Fitted(
        lambda users, items: np.asarray(model.predict(users, items)),
        f"{ATOMS} atoms, {sweeps} sweeps",
    )


def surprise_svd(lists: dict[int, list[tuple[int, float]]], train: Ratings) -> Fitted:
    """Surprise's SVD with its defaults: 100 factors and biases, 20 epochs of stochastic gradients."""
    from surprise import SVD, Trainset

    known = Trainset(lists, {}, *train.shape, len(train), (LOWEST, HIGHEST), {}, {})
    model = SVD(random_state=0).fit(known)
    mean = known.global_mean

    def predict(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return mean + model.bu[users] + model.bi[items] + products(model.pu, model.qi, users, items)

    return Fitted(predict, f"{model.n_factors} atoms")


def by_user(train: Ratings) -> dict[int, list[tuple[int, float]]]:
    """Return the ratings as Surprise wants them: a list of pairs for each user."""
    order = np.argsort(train.users, kind="stable")
    ends = np.cumsum(np.bincount(train.users, minlength=train.shape[0]))[:-1]
    columns = zip(
        np.split(train.items[order], ends), np.split(train.stars[order], ends), strict=True
    )
    return {
        user: list(zip(i.tolist(), s.tolist(), strict=True)) for user, (i, s) in enumerate(columns)
    }


# --- the comparison
# ---------------------------------------------------------------------------------------------------


def chosen_strength(fit: Callable[[Ratings, float], Fitted], train: Ratings) -> tuple[float, float]:
    """Return the strength of least error on a validation share, and the CPU of finding it by going down."""
    rest, validation = train.split(VALIDATION, 2)
    best, error, spent = STRENGTHS[0], np.inf, 0.0
    for strength in STRENGTHS:
        seconds, model = cpu(lambda strength=strength: fit(rest, strength))
        spent += seconds
        now = model.rmse(validation)
        if now >= error:
            break
        best, error = strength, now
    return best, spent


def compared(ratings: Ratings) -> list[str]:
    """Return the table of all models on one split."""
    train, test = ratings.split(HELD_OUT, 1)
    has_cmf = installed("cmfrec")
    strength, spent = chosen_strength(cmf if has_cmf else ours_on_biases, train)
    models: dict[str, Callable[[], Fitted]] = {
        "mean + biases": lambda: biases(train),
        f"ConvexSubspace(max_rank={ATOMS}) on user means, item offsets": lambda: ours_on_user_means(
            train, strength, ATOMS
        ),
        f"ConvexSubspace(max_rank={ATOMS}) on biases": lambda: ours_on_biases(
            train, strength, ATOMS
        ),
    }
    if len(ratings) <= SMALL:
        models["ConvexSubspace on biases"] = lambda: ours_on_biases(train, strength)
    if has_cmf:
        models[f"cmfrec CMF(k={ATOMS})"] = lambda: cmf(train, strength)
        models[f"cmfrec CMF(k={ATOMS}, niter={FEW_SWEEPS})"] = lambda: cmf(
            train, strength, FEW_SWEEPS
        )
    if installed("surprise"):
        lists = by_user(train)
        models["Surprise SVD()"] = lambda: surprise_svd(lists, train)
    seconds: dict[str, float] = {}
    fitted: dict[str, Fitted] = {}
    for _ in range(REPEATS if len(ratings) <= SMALL else 1):
        for name, fit in models.items():
            spent_now, fitted[name] = cpu(fit)
            seconds[name] = min(spent_now, seconds.get(name, np.inf))
    unit = seconds.get(f"cmfrec CMF(k={ATOMS})")
    rows = []
    for name, model in fitted.items():
        ratio = "" if unit is None else f"{seconds[name] / unit:.2f}"
        rows.append([name, f"{model.rmse(test):.4f}", f"{seconds[name]:.2f} s", ratio, model.note])
    chooser = "CMF" if has_cmf else "ConvexSubspace"
    return [
        *table("model | RMSE, held out | CPU of the fit | to CMF | ends with", rows),
        "",
        f"alpha = lambda_ = {strength:.1f}, chosen for {chooser} on {VALIDATION:.0%} of the "
        f"ratings learned from ({spent:.0f} CPU s, not counted above).",
    ]


def described(ratings: Ratings) -> str:
    """Say what a table looks like."""
    per_user, per_item = (np.bincount(ids) for ids in (ratings.users, ratings.items))
    return (
        f"{ratings.shape[0]:,} users x {ratings.shape[1]:,} items, {len(ratings):,} ratings of "
        f"mean {ratings.stars.mean():.2f} and deviation {ratings.stars.std():.2f}; a user has "
        f"{np.median(per_user):.0f} in the median and at most {per_user.max():,}, an item "
        f"{np.median(per_item):.0f} and {per_item.max():,}."
    )


def tables() -> Iterator[tuple[str, Ratings]]:
    """Yield the file there is, or stand-ins for it; of a large table first a tenth of its users."""
    path = found()
    if path is None:
        yield (
            "A generated table of the shape of MovieLens 100k",
            StandIn(users=943, items=1_682, ratings=100_000).draw(),
        )
        yield (
            "A tenth of a generated stand-in for MovieLens 10M",
            StandIn(users=7_200, ratings=1_000_000).draw(),
        )
        if not QUICK:
            yield "A generated stand-in for MovieLens 10M", StandIn().draw()
        return
    ratings = read(path)
    if len(ratings) > SMALL:
        yield "A tenth of MovieLens's users", ratings.tenth()
    if len(ratings) <= SMALL or not QUICK:
        yield f"MovieLens, {path.parent.name}/{path.name}", ratings


def main() -> str:
    """Compare the models on every table."""
    peers = [
        name for name in ("cmfrec", "scikit-surprise") if installed(name.removeprefix("scikit-"))
    ]
    lines = [
        "# Ratings",
        "",
        f"{HELD_OUT:.0%} of the ratings are held out. One thread; "
        f"{versions('scikit-learn', *peers)}. ConvexSubspace fits to a relative gap of {TOL:g}, "
        f"until a limited rank lets the objective fall no further, or for {TIME_LIMIT} s; alone "
        "here it says how far it can be from the optimum over all ranks. CMF's objective is the "
        "same but for the number of atoms and for its penalized biases, so its strength serves "
        "both. Surprise has its defaults, and the CPU of making its lists is not counted. A "
        f"user's mean is damped by {DAMPING[0]:.0f} ratings of the overall mean; biases are damped "
        f"by {DAMPING[0]:.0f} and {DAMPING[1]:.0f}.",
    ]
    if "cmfrec" not in peers:
        lines += ["", "cmfrec is missing: it is built from source and needs a C compiler."]
    for title, ratings in tables():
        lines += ["", f"## {title}", "", described(ratings), "", *compared(ratings)]
    return "\n".join(lines) + "\n"
