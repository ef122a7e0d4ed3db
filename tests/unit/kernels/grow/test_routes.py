"""Rows outside a tree's sample walk it by bins."""

import numpy as np
import pytest

import naive
import pages
from arboost.kernels.cpu.grow import partition, routes
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("max_depth", [0, 1, 4])
def test_the_walk_of_every_row_that_is_not_skipped(max_depth, dtype):
    rng = np.random.default_rng(max_depth)
    n_bins = [9, 200, 3]
    bins = pages.make_bins(rng, 400, n_bins)
    page = pages.make_page(bins, n_bins, dtype)
    gradients, g, h = pages.quantized(rng, 400, "packed")
    params = pages.tree_params(max_depth=max_depth, min_child_weight=0)
    nodes = naive.grow(bins.tolist(), g, h, n_bins, pages.naive_params(params, gradients))
    grower = HistogramGrower(Context(), page, params)
    grown = grower.grow(gradients, None, 0)
    skip = (rng.random(400) < 0.4).astype(np.uint8)
    start = rng.normal(size=(400, 2)).astype(np.float32)
    margin = start.copy()
    weights = grown.tree.threshold
    table = np.empty((grown.tree.n_nodes, routes.N_ROUTE), np.int64)
    routes.write_routes((), (), grower.engine.nodes, page.missing_code, table, 0, len(table))
    for span in ((0, 1), (1, 200), (200, 200), (200, 400)):
        common = (page.words.view(dtype), 0, table, (), weights, skip, page.missing_code, 1)
        partition.add_weights_by_bins(*common, margin, *span)
    for r in range(400):
        if not skip[r]:
            start[r, 1] += weights[naive.leaf_of_bins(nodes, bins[r].tolist())]
    np.testing.assert_array_equal(margin, start)
