"""The formula for memory: its terms, and a training in a process of its own that stays below it."""

import sys
from pathlib import Path

import numpy as np
import pytest

import child_process
import page_sources
from arboost.matrix import page
from arboost.matrix.adapt import DenseData
from arboost.matrix.cuts import make_cuts
from arboost.matrix.needs import bytes_needed, bytes_of_row
from arboost.matrix.store import PAGE_BYTES, PageCache
from arboost.runtime.context import Context


@pytest.mark.parametrize(("n_features", "max_bin"), [(1, 256), (8, 256), (28, 64), (28, 1000)])
def test_bytes_of_a_row_are_those_of_a_page(n_features, max_bin):
    raw = DenseData(np.random.default_rng(0).normal(size=(2000, n_features)).astype(np.float32))
    made = page.make_binned(Context(), raw, make_cuts(Context(), raw, None, max_bin))
    assert bytes_of_row(n_features, max_bin) == made.nbytes / 2000


def test_terms():
    n = 10**8
    memory, disk = bytes_needed(n, 28), bytes_needed(n, 28, cache=PageCache())
    assert memory.bins == 60 * n
    assert disk.bins < 3.01 * PAGE_BYTES
    assert memory.rows == disk.rows == 32 * n
    assert bytes_needed(n, 28, n_outputs=3, n_label_columns=2, has_weight=True, subsample=True).rows == 73 * n
    assert memory.total > memory.rows + memory.bins
    budget = PageCache(memory_budget=10**9)
    assert 0.4 * 10**9 < bytes_needed(n, 28, cache=budget).bins <= 10**9
    assert bytes_needed(n, 28, cache=budget, subsample=True).bins <= 10**9
    assert bytes_needed(1000, 28, cache=PageCache()).bins == 60_000, "all pages"
    assert bytes_needed(n, 10**5).cuts < 300 << 20
    assert bytes_needed(n, 10**5, max_depth=0).histograms <= 1 << 29


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read from /proc")
def test_a_training_stays_below(tmp_path):
    """1.2 million rows; a first, small training has loaded what any training needs."""
    code = f"""
import re, sys
sys.path.insert(0, {str(Path(page_sources.__file__).parent)!r})
import arboost
from page_sources import MadeUp

def memory(what):
    return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

def train(n_batches):
    data = arboost.ExtMemQuantileDMatrix(MadeUp(None, n_batches, 100_000, 1 << 17))
    arboost.train({{"max_depth": 6, "nthread": 2}}, data, 2)
    return data.num_row()

train(1)
before = memory("VmRSS")
n_rows = train(12)
print(n_rows, memory("VmHWM") - before)
"""
    child_process.run_code(tmp_path, code)  # compiles what is not kept yet: the compiler's memory is another matter
    n_rows, peak = map(int, child_process.run_code(tmp_path, code).split())
    need = bytes_needed(n_rows, 5, cache=PageCache(page_bytes=13 << 17))
    assert peak < need.total
    assert peak > need.rows / 2, "the formula is not far above"
