"""Small binned pages, gradients and node tables made by hand, and their plain-Python forms for `naive.py`."""

import itertools
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from arboost.boosters import sampling
from arboost.kernels import jit
from arboost.kernels.cpu.grow import arrays
from arboost.kernels.dtypes import BY_ROWS, NO_HIST, NODE
from arboost.levels import histogram, quantize
from arboost.matrix.cuts import Cuts
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import resolve
from arboost.runtime import pool
from arboost.runtime.context import Context
from naive import MISSING, Params

THREADS = (1, 2, 3, 8)
KINDS = ("equal hessians", "packed", "wide", "negative hessians")
ALL_ROWS = np.zeros(0, np.int32)


def make_bins(rng, n_rows, n_bins, missing=0.2):
    """Random bins (n_rows, n_features); `missing` is the rate of missing values, or one rate for each feature."""
    bins = np.stack([rng.integers(0, n, n_rows) for n in n_bins], axis=1)
    return np.where(rng.random(bins.shape) < np.asarray(missing), MISSING, bins)


def make_page(bins, n_bins, dtype=np.uint8):
    """A page in which bin b of any feature holds the raw values [b, b + 1)."""
    dtype = np.dtype(dtype)
    n_bins = np.asarray(n_bins)
    n_rows, n_features = bins.shape
    values = np.concatenate([np.arange(1, n + 1) for n in n_bins]).astype(np.float32)
    ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
    minima, numerical = np.full(n_features, -1, np.float32), np.zeros(n_features, np.bool_)
    cuts = Cuts(ptr, values, minima, (bins == MISSING).any(axis=0), numerical)
    codes = np.where(bins == MISSING, np.iinfo(dtype).max, bins).astype(dtype)
    words = np.zeros((n_rows, -(-n_features * dtype.itemsize // 8)), np.uint64)
    words.view(dtype)[:, :n_features] = codes
    columns = np.ascontiguousarray(codes.T)
    return BinnedPage(cuts, words, columns)


def page_arrays(page):
    """A page as kernels see it."""
    bins = page.words if page.bin_dtype == np.uint8 else page.words.view(page.bin_dtype)
    slot_ptr = np.append(0, np.cumsum(page.n_bins + page.cuts.has_missing)).astype(np.int64)
    return arrays.Page(bins, page.columns, slot_ptr, page.n_bins, page.missing_code)


def split_page(page, bounds):
    """The rows of a page on several ones, each beginning at one of `bounds`."""
    spans = zip(bounds, [*bounds[1:], page.n_rows])
    return [
        replace(page, words=page.words[a:b].copy(), columns=page.columns[:, a:b].copy(), first_row=a) for a, b in spans
    ]


def raw_values(bins):
    """Raw rows that `make_page`'s cuts put in these bins."""
    return np.where(bins == MISSING, np.nan, bins).astype(np.float32)


def make_gradients(rng, n_rows, kind):
    """Float32 (g, h) of one of KINDS."""
    g = rng.normal(size=n_rows).astype(np.float32)
    h = np.ones(n_rows, np.float32)
    if kind == "packed":
        h = rng.uniform(0.1, 1, n_rows).astype(np.float32)
    elif kind == "wide":
        h = np.exp(rng.uniform(-4, 4, n_rows)).astype(np.float32)
        g[0], h[-1] = 1e9, 1e9
    elif kind == "negative hessians":
        h = rng.uniform(-0.2, 1, n_rows).astype(np.float32)
        h[0] = -0.1
    return g, h


def quantized(rng, n_rows, kind):
    """(gradients as the engine has them, g in quanta, h in quanta)."""
    gradients = quantize.quantize(Context(), *make_gradients(rng, n_rows, kind))
    return gradients, *unpack(gradients)


def unpack(gradients):
    """Integer lists (g, h) from either form of QuantizedGradients."""
    shift = int(gradients.packings[0][0])
    if not shift:
        return [int(v) for v in gradients.planes[0]], [int(v) for v in gradients.planes[1]]
    values = [int(v) for v in gradients.planes[0]]
    return [v >> shift for v in values], [v & ((1 << shift) - 1) for v in values]


def make_nodes(ranges, rows, g, h, by_rows=()):
    """Node records that own rows[start:stop] for each range; those in `by_rows` are marked for evaluation by rows."""
    nodes = np.zeros(len(ranges), NODE)
    for i, (start, stop) in enumerate(ranges):
        node = nodes[i]
        node["start"], node["stop"] = start, stop
        node["g"], node["h"] = sum(g[r] for r in rows[start:stop]), sum(h[r] for r in rows[start:stop])
        node["feature"] = node["left"] = node["right"] = node["parent"] = -1
        node["hist"] = BY_ROWS if i in by_rows else NO_HIST
    return nodes


def tree_params(**params):
    return resolve(params).tree


def naive_params(tree, gradients=None):
    """The naive twin's parameters from TreeParams and, for integer gradients, their units."""
    shared = {name: getattr(tree, name) for name in Params.__dataclass_fields__ if hasattr(tree, name)}
    if gradients is not None:
        shared |= {"g_unit": gradients.g_unit, "h_unit": gradients.h_unit}
    return Params(**shared)


def random_spans(seed):
    """A stand-in for pool.split_range: at most n_parts spans, cut anywhere, whatever the grain."""
    rng = np.random.default_rng(seed)

    def split_range(n, n_parts, grain):
        n_cuts = min(n_parts - 1, max(n - 1, 0))
        cuts = np.sort(rng.choice(np.arange(1, n), n_cuts, replace=False)) if n_cuts else []
        bounds = [0, *(int(c) for c in cuts), n]
        return list(itertools.pairwise(bounds))

    return split_range


@contextmanager
def cut_anywhere(seed=0):
    """Every step that may be spread over threads is, however small, in spans cut at random."""
    with pytest.MonkeyPatch.context() as patch:
        split_range = random_spans(seed)
        for module in (pool, sampling):
            patch.setattr(module, "split_range", split_range)
        patch.setattr(pool, "run_ranges", _run_ranges)
        patch.setattr(histogram, "TEAM_SLOTS", 0)
        patch.setattr(histogram, "TEAM_UPDATES", 0)
        yield


def _run_ranges(n_threads, n, grain, kernel, *args):
    """pool.run_ranges without its threshold."""
    spans = pool.split_range(n, n_threads, grain)
    return pool.run_tasks(n_threads, kernel, [(*args, start, stop) for start, stop in spans])


def compiled(function):
    """Any function of kernels/ as Python can call it: parts of kernels have no entry point of their own."""
    return jit.kernel(function.py_func)
