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
WORD = re.compile(r"\b\w\w+\b")  # as TfidfVectorizer reads it
NONE = "(missing)"


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
    if scale:
        number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    else:
        number = SimpleImputer(strategy="median")
    parts: list[tuple[str, Any, Any]] = []
    if seen.of_kind(NUMBER):
        parts.append(("number", number, seen.of_kind(NUMBER)))
    if seen.of_kind(FLAG):
        parts.append(("flag", SimpleImputer(strategy="most_frequent"), seen.of_kind(FLAG)))
    if seen.of_kind(CATEGORY):
        parts.append(("category", _one_hot() if scale else _binary(), seen.of_kind(CATEGORY)))
    least = 2 if len(seen.frame) >= 50 else 1
    for j, name in enumerate(seen.of_kind(TEXT)):
        if least > 1:
            _require_repeated_words(seen.frame[name], name)
        words = TfidfVectorizer(max_features=MOST_WORDS, min_df=least, sublinear_tf=True)
        parts.append((f"text{j}", words, name))
    return ColumnTransformer(parts)


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
        f"by it; leave out --text {name!r}.",
    )


def _one_hot() -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def _binary() -> Pipeline:
    """Return a transformer of two words to 0 and 1, in the order of the alphabet.

    Missing cells become the more frequent one.
    """
    return make_pipeline(
        SimpleImputer(missing_values=NONE, strategy="most_frequent"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
        SimpleImputer(strategy="most_frequent"),
    )


BINARY_CODE = (
    f'make_pipeline(SimpleImputer(missing_values="{NONE}", strategy="most_frequent"), '
    'OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan), '
    'SimpleImputer(strategy="most_frequent"))'
)


def warn_of_unseen(transformer: ColumnTransformer, X: Any) -> None:
    """Warn of categories of new rows that the transformer was not fitted to."""
    fitted = {name: (part, columns) for name, part, columns in transformer.transformers_}
    part, columns = fitted.get("category", (None, ()))
    binary = isinstance(part, Pipeline)
    for j, name in enumerate(columns):
        new = sorted(set(X[name]) - set((part[1] if binary else part).categories_[j]) - {NONE})
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
    parts = []
    if seen.of_kind(NUMBER):
        if scale:
            number = 'make_pipeline(SimpleImputer(strategy="median"), StandardScaler())'
        else:
            number = 'SimpleImputer(strategy="median")'
        parts.append(f'    ("number", {number}, {seen.of_kind(NUMBER)!r}),')
    if seen.of_kind(FLAG):
        parts.append(
            f'    ("flag", SimpleImputer(strategy="most_frequent"), {seen.of_kind(FLAG)!r}),'
        )
    if seen.of_kind(CATEGORY):
        if scale:
            category = 'OneHotEncoder(handle_unknown="ignore", sparse_output=False)'
        else:
            category = BINARY_CODE
        parts.append(f'    ("category", {category}, {seen.of_kind(CATEGORY)!r}),')
    least = 2 if len(seen.frame) >= 50 else 1
    parts += [
        f'    ("text{j}", TfidfVectorizer(max_features={MOST_WORDS}, min_df={least}, '
        "sublinear_tf=True), "
        f"{name!r}),"
        for j, name in enumerate(seen.of_kind(TEXT))
    ]
    if seen.of_kind(CATEGORY):
        fills = [
            f"X[{seen.of_kind(CATEGORY)!r}] = "
            f"X[{seen.of_kind(CATEGORY)!r}].astype(object).fillna({NONE!r}).astype(str)"
        ]
    else:
        fills = []
    fills += (
        [f"X[{seen.of_kind(TEXT)!r}] = X[{seen.of_kind(TEXT)!r}].fillna('')"]
        if seen.of_kind(TEXT)
        else []
    )
    names = [c.name for c in seen.inputs]
    return "\n".join(
        [
            f"X = frame[{names!r}].copy()",
            *fills,
            "encode = ColumnTransformer([",
            *parts,
            "])",
            "E = encode.fit_transform(X)",
        ]
    )


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
