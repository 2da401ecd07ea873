"""Models in files: what comes back is what was saved, and a file of a stranger runs nothing."""

import importlib.metadata
import json
import pickle
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import catalogue
import regfactor
from regfactor.saving import NOTE, UntrustedModel

pytest.importorskip("skops", reason="saving needs skops: pip install -e '.[cli]'")

TWO_TABLES = (
    "CanonicalCorrelation",
    "MultiViewSubspace",
    "ReducedRankRegression",
    "TwoViewSubspace",
)


def fitted(model, rng):
    """A fit of any estimator to a table that suits it."""
    X = rng.gamma(2.0, size=(40, 5)) + 0.5
    name = type(model).__name__
    if name in catalogue.N_WAY:
        parts = [rng.gamma(2.0, size=size) for size in (10, 5, 4)]
        return model.fit(np.einsum("i,j,k->ijk", *parts))
    if name.endswith(("Classifier", "SVC")):
        return model.fit(X, np.where(X[:, 0] > 2, "high", "low"))
    if name.endswith(("Regressor", "RegressorCV")):
        return model.fit(X, X[:, 0])
    if name in TWO_TABLES:
        return model.fit(X, X[:, :2])
    return model.fit(X)


def answer(model, X):
    """What a user asks a model, by whichever method it has."""
    for method in ("forecast", "predict", "transform"):
        if hasattr(model, method):
            return np.asarray(
                model.forecast(3).mean if method == "forecast" else getattr(model, method)(X)
            )
    return np.asarray(model.labels_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", catalogue.ESTIMATORS)
def test_a_model_comes_back_as_it_was(name, tmp_path):
    model = fitted(clone(catalogue.ESTIMATORS[name]), np.random.default_rng(0))
    X = np.random.default_rng(1).gamma(2.0, size=(6, 5)) + 0.5
    if name in catalogue.N_WAY:
        X = np.random.default_rng(1).gamma(2.0, size=(6, 5, 4))
    regfactor.save(model, tmp_path / "model.skops")
    again = regfactor.load(tmp_path / "model.skops")
    assert type(again) is type(model) and repr(again.get_params()) == repr(model.get_params())
    np.testing.assert_array_equal(answer(again, X), answer(model, X))
    assert list(tmp_path.iterdir()) == [tmp_path / "model.skops"]


@pytest.mark.parametrize("regression", ["auto", "linear", "codes"])
def test_regressions_of_views_survive(regression, tmp_path):
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(60, 2))
    X1, X2, X3 = (
        shared @ rng.normal(size=(2, d)) + 0.2 * rng.normal(size=(60, d)) for d in (5, 4, 3)
    )
    model = regfactor.TwoViewSubspace(regression=regression, random_state=0).fit(X1, X2)
    predicted = model.predict_view(X1=X1)  # the other direction is fitted after loading
    regfactor.save(model, tmp_path / "two.skops")
    again = regfactor.load(tmp_path / "two.skops")
    np.testing.assert_array_equal(again.predict_view(X1=X1), predicted)
    np.testing.assert_array_equal(again.predict_view(X2=X2), model.predict_view(X2=X2))
    np.testing.assert_array_equal(again.denoise(X1, X2)[0], model.denoise(X1, X2)[0])
    if regression == "codes":
        return
    many = regfactor.MultiViewSubspace(regression=regression).fit({"a": X1, "b": X2, "c": X3})
    limits = many.predict_view({"a": X1}, "c", level=0.9)
    regfactor.save(many, tmp_path / "many.skops")
    again = regfactor.load(tmp_path / "many.skops")
    np.testing.assert_array_equal(again.predict_view({"a": X1}, "c", level=0.9).lower, limits.lower)
    np.testing.assert_array_equal(again.transform({"b": X2}), many.transform({"b": X2}))
    assert str(again.explain()) == str(many.explain())


def test_status_certificate_and_types_of_columns_survive(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(
                rng.choice(list("SML"), 30), categories=list("SML"), ordered=True
            ),
            "smokes": pd.array(rng.random(30) < 0.5, dtype="boolean"),
            "height": rng.normal(size=30),
        }
    )
    frame.iloc[[3, 5], [0, 2]] = None
    model = regfactor.SubspaceImputer(loss="auto").fit(frame)
    regfactor.save(model, tmp_path / "model")
    again = regfactor.load(tmp_path / "model")
    assert again.status_ is model.status_ and str(again.certificate_) == str(model.certificate_)
    pd.testing.assert_frame_equal(again.transform(frame), model.transform(frame))


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-31", periods=60, freq="ME", name="month"),
        pd.date_range("2020-03-20", periods=60, freq="h", tz="Europe/Berlin"),
        pd.DatetimeIndex(pd.date_range("2020-01-01", periods=60, freq="D").to_numpy()),
        pd.period_range("2020-01", periods=60, freq="Q", name="quarter"),
        pd.RangeIndex(3, 63),
    ],
    ids=["months", "hours in a zone", "days unsaid", "quarters", "numbers"],
)
def test_a_series_is_continued_after_loading(index, tmp_path):
    values = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)
    model = regfactor.RegularizedARMA(p=1, q=1).fit(
        pd.DataFrame(values, index=index, columns=["a", "b"])
    )
    regfactor.save(model, tmp_path / "model.skops")
    again = regfactor.load(tmp_path / "model.skops")
    pd.testing.assert_frame_equal(again.forecast(3).to_frame(), model.forecast(3).to_frame())
    pd.testing.assert_frame_equal(again.predict(), model.predict())


def test_a_pipeline_is_saved_whole(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = make_pipeline(StandardScaler(), regfactor.ConvexSubspace(alpha=0.1)).fit(X)
    regfactor.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(
        regfactor.load(tmp_path / "model.skops").transform(X), model.transform(X)
    )


def test_the_version_is_inside_and_another_one_is_told(tmp_path):
    path = tmp_path / "model.skops"
    regfactor.save(regfactor.ConvexSubspace(), path)
    with zipfile.ZipFile(path) as archive:
        note = json.loads(archive.read(NOTE))
    assert note == {"regfactor": importlib.metadata.version("regfactor"), "model": "ConvexSubspace"}
    with_note(path, {**note, "regfactor": "0.0.1"})
    with pytest.warns(UserWarning, match="written by regfactor 0.0.1"):
        regfactor.load(path)


def with_note(path, note):
    """Write the same file with another note."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if name != NOTE}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**entries, NOTE: json.dumps(note)}.items():
            archive.writestr(name, content)


class Payload:
    """Leaves a trace when a pickle of it is opened."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return type(self.trace).touch, (self.trace,)


def test_a_renamed_pickle_is_refused_and_runs_nothing(tmp_path):
    path, trace = tmp_path / "model.skops", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(UntrustedModel, match=r"not a file of regfactor\.save"):
        regfactor.load(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())  # the payload does work where it is opened
    assert trace.exists()


def tampered(path, module, name):
    """Replace the class of a saved Huber loss by another name."""
    regfactor.save(regfactor.FactorModel(loss=regfactor.losses.Huber(2.0)), path)
    with zipfile.ZipFile(path) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    schema = entries["schema.json"].decode()
    home = regfactor.losses.Huber.__module__
    assert f'"__module__": "{home}"' in schema and '"__class__": "Huber"' in schema
    schema = schema.replace(f'"__module__": "{home}"', f'"__module__": "{module}"')
    entries["schema.json"] = schema.replace(
        '"__class__": "Huber"', f'"__class__": "{name}"'
    ).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("subprocess", "Popen"),
        ("regfactor.__main__", "main"),
        ("regfactor.losses.nowhere", "Huber"),
        ("regfactor.fitting.base", "BaseEstimator"),  # imported there, not defined there
        ("regfactor.series.times", "importlib"),
    ],
)
def test_an_unknown_type_is_refused_by_name(tmp_path, module, name):
    path = tmp_path / "model.skops"
    tampered(path, module, name)
    with pytest.raises(UntrustedModel, match=f"names {module}.{name}"):
        regfactor.load(path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("regfactor.estimators.subspace", "ConvexSubspace"),
        ("regfactor.loop", "Status"),
        ("regfactor.losses.renamed", "Huber"),
    ],
)
def test_a_file_of_the_version_before_is_refused_with_what_to_do(tmp_path, module, name):
    path = tmp_path / "model.skops"
    tampered(path, module, name)
    with pytest.raises(UntrustedModel, match="earlier version") as caught:
        regfactor.load(path)
    message = str(caught.value)
    assert f"names {module}.{name}, which this version does not have" in message
    assert "Fit the model again and save it" in message
    assert "author" not in message


def test_functions_are_refused_when_saving_and_the_old_file_stays(tmp_path):
    path = tmp_path / "model.skops"
    regfactor.save(regfactor.ConvexSubspace(alpha=3.0), path)
    with pytest.raises(ValueError, match="cannot carry"):
        regfactor.save(regfactor.ConvexSubspace(callback=np.testing.assert_allclose), path)
    assert regfactor.load(path).alpha == 3.0 and list(tmp_path.iterdir()) == [path]


def test_without_skops_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(
        ImportError, match=r"needs skops: pip install -e '\.\[cli\]' in the checkout"
    ):
        regfactor.save(regfactor.ConvexSubspace(), tmp_path / "model.skops")


def test_a_missing_file_and_a_missing_folder_say_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        regfactor.load(tmp_path / "nowhere.skops")
    with pytest.raises(FileNotFoundError, match=r"no folder \S*nowhere to save model.skops in"):
        regfactor.save(regfactor.ConvexSubspace(), tmp_path / "nowhere" / "model.skops")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        regfactor.save(regfactor.ConvexSubspace(), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given", [("x.skops", regfactor.ConvexSubspace()), (regfactor.ConvexSubspace(), None)]
)
def test_what_is_no_model_and_a_file_is_named(given):
    with pytest.raises(ValueError, match=r"save\(model, 'model.skops'\); got"):
        regfactor.save(*given)


@pytest.mark.parametrize(
    "given", [{"a": 1}, regfactor.ConvexSubspace, regfactor.losses.Huber(), [1]], ids=repr
)
def test_what_is_no_estimator_is_not_saved(given, tmp_path):
    with pytest.raises(ValueError, match="save keeps an estimator"):
        regfactor.save(given, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_of_a_search_the_best_model_is_to_be_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4))
    search = GridSearchCV(
        regfactor.ExponentialFamilyPCA(1, family="gaussian"), {"alpha": [1.0, 2.0]}, cv=2
    ).fit(X)
    with pytest.raises(ValueError, match=r"save\(search.best_estimator_, path\)"):
        regfactor.save(search, tmp_path / "model.skops")
    regfactor.save(search.best_estimator_, tmp_path / "model.skops")


class Stranger:
    """A class of someone else."""


def test_a_file_of_skops_alone_is_refused_by_what_it_names(tmp_path):
    skops = pytest.importorskip("skops.io")
    skops.dump(Stranger(), tmp_path / "model.skops")
    with pytest.raises(UntrustedModel, match=r"names test_saving\.Stranger"):
        regfactor.load(tmp_path / "model.skops")
    skops.dump(LogisticRegression(), tmp_path / "model.skops")
    with pytest.raises(UntrustedModel, match=r"not a file of regfactor\.save"):
        regfactor.load(tmp_path / "model.skops")
