"""The real data sets beside the repository, for tests and benchmarks.

They lie in ../shared/data, seen from the repository, or where ARBOOST_DATA says; `manifest.json` there describes
each. Without the folder, or without pandas and pyarrow to read it, tests skip with the reason. Categories become
integer codes in the order of their levels, a missing category NaN; a CSR set stays CSR, an absent entry meaning 0.
"""

import functools
import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent


class DataUnavailable(Exception):
    """The data folder, or what is needed to read it, is not here; the message says which."""


@dataclass(frozen=True)
class Dataset:
    """A set as arrays: X (n, f) float32 or CSR float32, y (n,) or (n, targets) float32."""

    name: str
    task: str
    X: Any
    y: np.ndarray
    feature_names: list[str]
    n_classes: int
    entry: dict[str, Any]

    def sample(self, n_rows: int, seed: int = 0) -> "Dataset":
        """At most `n_rows` rows drawn without replacement, in their own order; itself if it is no larger."""
        if self.X.shape[0] <= n_rows:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(self.X.shape[0], n_rows, replace=False))
        return Dataset(self.name, self.task, self.X[rows], self.y[rows], self.feature_names, self.n_classes, self.entry)


def data_folder() -> Path:
    """The folder of data sets; DataUnavailable, with the reason, where there is none."""
    folder = Path(os.environ.get("ARBOOST_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "manifest.json").is_file():
        raise DataUnavailable(f"no data sets in {folder} (set ARBOOST_DATA to their folder)")
    for package in ("pandas", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            raise DataUnavailable(f"{package} is needed to read the data sets")
    return folder


@functools.cache
def manifest() -> dict[str, dict[str, Any]]:
    """What is there: name -> entry of the manifest."""
    entries = json.loads((data_folder() / "manifest.json").read_text())["datasets"]
    return {entry["name"]: entry for entry in entries}


def names(*tasks: str) -> list[str]:
    """The sets of these tasks (of every task if none is named), in the manifest's order."""
    return [name for name, entry in manifest().items() if not tasks or entry["task"] in tasks]


@functools.lru_cache(maxsize=4)
def load(name: str) -> Dataset:
    """Read one set by its name in the manifest."""
    import pandas as pd

    entry = manifest()[name]
    frame = pd.read_parquet(data_folder() / entry["file"])
    target = entry["target"]
    y = frame[target].to_numpy(np.float32)
    if entry.get("format") == "csr-lists":
        X: Any = _csr_of_lists(frame, entry["features"])
        columns = [f"f{i}" for i in range(entry["features"])]
    else:
        dropped = ([target] if isinstance(target, str) else target) + entry.get("non_feature_columns", [])
        table = frame.drop(columns=dropped)
        columns = list(table.columns)
        X = np.empty(table.shape, np.float32)
        for i, column in enumerate(columns):
            X[:, i] = _codes(table[column])
    return Dataset(name, entry["task"], X, y, columns, _n_classes(entry), entry)


def _codes(column: Any) -> np.ndarray:
    """A column as numbers: categories by the position of their level, missing as NaN."""
    if str(column.dtype) != "category":
        return column.to_numpy(np.float32)
    codes = column.cat.codes.to_numpy(np.float32)
    return np.where(codes < 0, np.float32(np.nan), codes)


def _csr_of_lists(frame: Any, n_features: int) -> sp.csr_matrix:
    lengths = frame["indices"].map(len).to_numpy()
    values = np.concatenate(frame["values"].to_list()).astype(np.float32)
    indices = np.concatenate(frame["indices"].to_list())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_matrix((values, indices, indptr), shape=(len(frame), n_features))


def _n_classes(entry: dict[str, Any]) -> int:
    return {"binary": 2, "multiclass": entry.get("n_classes", 0)}.get(entry["task"], 0)
