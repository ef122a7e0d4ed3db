"""Which rows a tree sees: Bernoulli draws by a hash of the row's id, so any thread or worker agrees."""

import numpy as np

from arboost.kernels.cpu import sample
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range

_GRAIN = 65_536


def sample_rows(ctx: Context, n_rows: int, subsample: float, key: int) -> np.ndarray | None:
    """Ids of the chosen rows, ascending, int32; None when all rows are taken."""
    if subsample >= 1.0:
        return None
    key = rng.make_key(key, rng.ROWS)
    threshold = round(subsample * 2**32)
    rows = np.empty(n_rows, np.int32)
    spans = split_range(n_rows, ctx.n_threads, _GRAIN)
    counts = ctx.run_tasks(sample.sample_rows, [(np.uint64(key), threshold, 0, rows, a, b) for a, b in spans])
    return np.concatenate([rows[a : a + int(n)] for (a, _), n in zip(spans, counts, strict=True)])
