"""A real data set shipped with the package, and the tour that `make demo` runs on it.

`bike_sharing.npz` holds hourly bike rentals in Washington, D.C., 2011-2012: 17,379 rows, 13 features (uint8 or
float32), target = bikes rented in that hour. `bike_sharing.md` beside it states source, licence and changes.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

_DATA = Path(__file__).with_name("bike_sharing.npz")


class Dataset(NamedTuple):
    """A table and its target.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features), float32
        Features, rows in order of time.
    y : ndarray of shape (n_rows,), float32
        Bikes rented in the hour.
    feature_names : list of str
        One name per column of `X`.
    """

    X: np.ndarray
    y: np.ndarray
    feature_names: list[str]


def load_bike_sharing() -> Dataset:
    """Load the hourly bike rentals shipped with the package.

    Returns
    -------
    Dataset
        17,379 rows and 13 features.
    """
    with np.load(_DATA, allow_pickle=False) as columns:
        names = [name for name in columns.files if name != "target"]
        table = np.column_stack([columns[name].astype(np.float32) for name in names])
        return Dataset(table, columns["target"].astype(np.float32), names)
