"""Sources of batches for matrices on disk, and a look at the page files that this process has open."""

import os

import numpy as np

import arboost


class Parts(arboost.DataIter):
    """A table in batches, with what belongs to its rows."""

    def __init__(self, X, fields, edges, **options):
        super().__init__(**options)
        self.X, self.fields, self.edges, self.at = X, fields, edges, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.edges) - 1:
            return False
        rows = slice(self.edges[self.at], self.edges[self.at + 1])
        of_columns = {"feature_types", "feature_names", "feature_weights"}
        fields = {name: data if name in of_columns else data[rows] for name, data in self.fields.items()}
        input_data(data=self.X[rows], **fields)
        self.at += 1
        return True


class MadeUp(arboost.DataIter):
    """Random numbers, and a label; five features, so that a row of bins has 13 bytes."""

    def __init__(self, folder, n_batches=4, n_rows=750, page_rows=448):
        super().__init__(cache_prefix=folder, min_cache_page_bytes=page_rows * 13)
        self.n_batches, self.n_rows, self.at = n_batches, n_rows, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == self.n_batches:
            return False
        X = np.random.default_rng(self.at).normal(size=(self.n_rows, 5)).astype(np.float32)
        input_data(data=X, label=X[:, 0] + X[:, 1] ** 2)
        self.at += 1
        return True


def open_page_files(folder="/"):
    """Page files in the folder that this process has open (Linux)."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the listing's own
            continue
        found += [name] if "arboost-pages" in name and name.startswith(str(folder)) else []
    return found
