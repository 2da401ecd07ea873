"""Writes the binary files of this folder again: `python tests/files/make_binary.py` (needs openpyxl and odfpy)."""

from datetime import date
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import scipy.sparse

HERE = Path(__file__).parent


def sheets(name, **tables):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in tables.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(HERE / name)


days = [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31)]
table = [
    ["a", "b", "d"],
    *([a, b, d] for a, b, d in zip([1.5, 2.5, 26.741], "xyx", days, strict=True)),
]
sheets("sheet.xlsx", one=table)
sheets("sheet_text_numbers.xlsx", one=[["a", "b"], [1.5, "33,70"], [26.741, "26.741"], [7, "5"]])
sheets("two_sheets.xlsx", one=[["x"], [1], [2], [4]], two=[["x"], [10], [20], [40]], empty=[])
sheets(
    "merged_header.xlsx",
    one=[
        ["region", 2023, None, 2024, None],
        [None, "sold", "price", "sold", "price"],
        ["north", 12, 1.5, 13, 1.75],
        ["south", 30, 2.5, 31, 2.75],
        ["east", 7, 9, 8, 9.5],
    ],
)
frame = pd.DataFrame({"a": [1.5, 2.5, 26.741], "b": ["x", "y", "x"]})
frame.to_excel(HERE / "sheet.ods", engine="odf", index=False)
pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64"), "b": ["x", None, "x"]}).to_parquet(
    HERE / "table.parquet"
)
pd.DataFrame({"a": [1, 999, 3], "b": [999, 1.5, 2.5]}).to_parquet(HERE / "marked.parquet")
pd.DataFrame({"a": ["26.741", "9.120", "112.001"], "b": ["33,70", "1,5", "7,25"]}).to_parquet(
    HERE / "strings.parquet"
)
pd.DataFrame({"a": [1, 2, 4], "b": [0.5, np.nan, 1.5]}).to_feather(HERE / "table.feather")
np.savez(HERE / "matrix.npz", X=[[1.0, 4.0], [2.0, 5.0], [3.0, np.nan]], y=[1, 2, 3])
entries = scipy.sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.5]]))
scipy.sparse.save_npz(HERE / "sparse.npz", entries)
scipy.sparse.save_npz(HERE / "sparse_missing.npz", entries)
