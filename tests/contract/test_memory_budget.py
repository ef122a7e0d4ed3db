"""A training from Parquet stays within its budget: peak memory, in a process of its own."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS, N_FEATURES = 1_000_000, 30
CHILD = """
    import resource, sys
    import arboost as xgb

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    xgb.train({"max_depth": 4}, xgb.DMatrix(sys.argv[1], label="y", cache_prefix=sys.argv[3]), 1)
    before = peak()
    data = xgb.DMatrix(sys.argv[2], label="y", memory_budget=sys.argv[4], cache_prefix=None)
    xgb.train({"max_depth": 4}, data, 2).predict(sys.argv[2], output=sys.argv[3] + "/out.parquet")
    print(peak() - before)
"""


def write(path, n_rows):
    """A file of row groups of 50,000, written one by one."""
    with pq.ParquetWriter(
        path, pa.schema([(f"f{k}", pa.float32()) for k in range(N_FEATURES)] + [("y", pa.float32())])
    ) as out:
        for k in range(0, n_rows, 50_000):
            X = np.random.default_rng(k).random((50_000, N_FEATURES), np.float32)
            columns = {f"f{f}": X[:, f].copy() for f in range(N_FEATURES)}
            out.write_table(pa.table(columns | {"y": X[:, 0] + X[:, 1] * X[:, 2]}))


@pytest.mark.skipif(sys.platform != "linux", reason="measures the resident set as Linux counts it")
def test_peak_memory_of_parquet(tmp_path):
    """114 MiB of values and 59 of bins; rows need 31, and all that is needed 133 where the bins are on disk."""
    write(tmp_path / "small.parquet", 50_000)
    write(tmp_path / "large.parquet", N_ROWS)
    files = [str(tmp_path / name) for name in ("small.parquet", "large.parquet")]
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), *files, str(tmp_path), "150MiB"],
        capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "bins are kept on disk" in ran.stderr
    assert int(ran.stdout) < 150
