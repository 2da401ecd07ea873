"""Mixed columns as numbers: scaled, one-hot, or by words, in one scikit-learn transformer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TEXT, Understood
from regfactor.cli.errors import BadInput, listed
from regfactor.core.params import warn

MOST_WORDS = 2000
NONE = "(missing)"
ROWS_OF_REPEATED_WORDS = 50  # from which on a word counts only if two rows have it
WORD = re.compile(r"\b\w\w+\b")  # as TfidfVectorizer reads it

# losses of families of cells; "auto" is chosen by column, with gross errors taken out
FAMILY_LOSSES = {
    "auto": "auto",
    "gaussian": "squared",
    "bernoulli": "logistic",
    "poisson": "poisson",
    "negative_binomial": "negative_binomial",
    "gamma": "gamma_log",
}


def plain(X: Any) -> Any:
    """Return inputs as floats, and categories as strings with "(missing)" for missing ones."""
    out = {}
    for name in X.columns:
        series = X[name]
        if hasattr(series.dtype, "categories"):
            out[name] = np.array(
                [NONE if v != v or v is None else str(v) for v in series.astype(object)],
                dtype=object,
            )
        elif series.dtype.kind == "O":
            out[name] = series.to_numpy(dtype=object)
        else:
            out[name] = series.to_numpy(dtype=float, na_value=np.nan)
    return type(X)(out, index=X.index)


def varied(seen: Understood) -> Understood:
    """Return the table without inputs in which nothing differs."""
    return seen.without(
        {
            c.name: "the same in all rows"
            for c in seen.inputs
            if seen.frame[c.name].nunique(dropna=True) < 2
        }
    )


def rows_of(E: Any) -> Any:
    """Return encoded rows such that some of them can be taken."""
    if hasattr(E, "tocsr"):
        return E.tocsr()
    return np.asarray(E)


def encoder(seen: Understood, scale: bool = True) -> ColumnTransformer:
    """Return a transformer of the inputs of a table; missing numbers become medians.

    Numbers that are not scaled are meant as they are, and so are categories then: of two, the later
    is 1.
    """
    if len(seen.frame) >= ROWS_OF_REPEATED_WORDS:
        for name in seen.of_kind(TEXT):
            _require_repeated_words(seen.frame[name], name)
    return ColumnTransformer(_parts(seen, scale))


def _parts(seen: Understood, scale: bool) -> list[tuple[str, Any, Any]]:
    """Return the names, transformers and columns of the parts of `encoder`."""
    numbers = SimpleImputer(strategy="median")
    flags = SimpleImputer(strategy="most_frequent")
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if scale:
        numbers = make_pipeline(numbers, StandardScaler())
    else:
        # two words as 0 and 1, in the order of the alphabet; missing cells as the more frequent
        categories = make_pipeline(
            SimpleImputer(missing_values=NONE, strategy="most_frequent"),
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            SimpleImputer(strategy="most_frequent"),
        )
    parts: list[tuple[str, Any, Any]] = [
        ("number", numbers, seen.of_kind(NUMBER)),
        ("flag", flags, seen.of_kind(FLAG)),
        ("category", categories, seen.of_kind(CATEGORY)),
    ]
    least = 2 if len(seen.frame) >= ROWS_OF_REPEATED_WORDS else 1
    for j, name in enumerate(seen.of_kind(TEXT)):
        words = TfidfVectorizer(max_features=MOST_WORDS, min_df=least, sublinear_tf=True)
        parts.append((f"text{j}", words, name))
    return [part for part in parts if part[2]]


def _require_repeated_words(texts: Any, name: str) -> None:
    """Raise if no word occurs in two rows of a column, as in one of names."""
    known: set[str] = set()
    for text in texts:
        words = set(WORD.findall(text.lower()))
        if known & words:
            return
        known |= words
    raise BadInput(
        f"No word of column {name!r} occurs in more than one row, so that rows cannot be compared "
        f"by it; leave out --text {name!r}."
    )


def warn_of_unseen(transformer: ColumnTransformer, X: Any) -> None:
    """Warn of categories of new rows that the transformer was not fitted to."""
    fitted = {name: (part, columns) for name, part, columns in transformer.transformers_}
    part, columns = fitted.get("category", (None, ()))
    binary = isinstance(part, Pipeline)
    for j, name in enumerate(columns):
        known = (part[1] if binary else part).categories_[j]
        new = sorted(set(X[name]) - {*known, NONE})
        if new:
            if binary:
                counted = "are treated as missing"
            else:
                counted = "count as none of those that were"
            warn(
                f"Column {name!r} has categories that were not there in fit: "
                f"{listed(map(repr, new))}; they {counted}."
            )


def features(transformer: ColumnTransformer) -> dict[str, int]:
    """Return the positions of words, flags and categories (`column=value`) among encoded columns.

    Numbers have no zero.
    """
    places: dict[str, int] = {}
    for name, part, columns in transformer.transformers_:
        at = transformer.output_indices_[name]
        if name.startswith("text"):
            found = list(part.get_feature_names_out())
        elif name == "flag":
            found = list(columns)
        elif name == "category":
            found = [
                f"{c}={level}"
                for c, levels in zip(columns, part.categories_, strict=True)
                for level in levels
            ]
        else:
            continue
        places |= {
            str(feature): at.start + j
            for j, feature in enumerate(found)
            if str(feature) not in places
        }
    return places


def encoder_code(seen: Understood, scale: bool = True) -> str:
    """Return the Python code of `encoder` and `plain` for this table."""
    lines = [f"X = frame[{[c.name for c in seen.inputs]!r}].copy()"]
    categories = seen.of_kind(CATEGORY)
    if categories:
        cells = f"X[{categories!r}]"
        lines.append(f"{cells} = {cells}.astype(object).fillna({NONE!r}).astype(str)")
    texts = seen.of_kind(TEXT)
    if texts:
        lines.append(f"X[{texts!r}] = X[{texts!r}].fillna('')")
    lines.append("encode = ColumnTransformer([")
    for name, part, columns in _parts(seen, scale):
        lines.append(f"    ({name!r}, {_transformer_code(part)}, {columns!r}),")
    return "\n".join([*lines, "])", "E = encode.fit_transform(X)"])


def _transformer_code(part: Any) -> str:
    """Return the Python code of a transformer."""
    if isinstance(part, Pipeline):
        steps = [_transformer_code(step) for step in part]
        return f"make_pipeline({', '.join(steps)})"
    return " ".join(repr(part).split()).replace("=nan", "=np.nan")


def encoder_imports(seen: Understood) -> str:
    """Return the imports that `encoder_code` needs."""
    lines = ["from sklearn.compose import ColumnTransformer"]
    if seen.of_kind(TEXT):
        lines.append("from sklearn.feature_extraction.text import TfidfVectorizer")
    lines += [
        "from sklearn.impute import SimpleImputer",
        "from sklearn.pipeline import make_pipeline",
        "from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler",
    ]
    return "\n".join(lines)
