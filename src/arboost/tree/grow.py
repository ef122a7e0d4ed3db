"""Growing on histograms of bins: the growth loop of `loop.py` filled in for pages.

Both steps for a set of nodes are one order each (kernels/cpu/level.py), and between them workers of a cluster add up
their histograms. A grower is made once per training matrix and keeps its arrays from tree to tree.
"""

import numpy as np

from arboost.kernels.cpu import expand, level, level_general, predict_bins, routes
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.memory import check_room
from arboost.runtime.pool import Team
from arboost.tree.constraints import monotone_vector
from arboost.tree.driver import Driver
from arboost.tree.general import GeneralSearch
from arboost.tree.histstore import HistogramStore
from arboost.tree.loop import NO_IDS, GrownTree, GrowthLoop
from arboost.tree.model import Tree
from arboost.tree.quantize import QuantizedGradients
from arboost.tree.rowsets import RowSets
from arboost.tree.shared import SharedColumns

TEAM_SLOTS = 20_000  # histogram slots to scan that are
TEAM_UPDATES = 150_000  # (row, feature) pairs in a set of nodes that are worth calling other threads for


class TreeGrower(GrowthLoop):
    """Grows trees on one page of binned rows."""

    def __init__(
        self,
        ctx: Context,
        page: BinnedPage,
        params: TreeParams,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
    ):
        monotone = monotone_vector(params.monotone_constraints, feature_names, page.n_features)
        is_plain = not (monotone.any() or page.cuts.is_categorical.any())
        page = page if is_plain else page.unbundled(ctx)
        super().__init__(ctx, params, page.n_features, feature_weights, feature_names)
        self._page, self.monotone = page, monotone
        self._row_bins = page.words.view(page.bin_dtype)
        self.rowsets = RowSets(ctx, page)
        self._store = HistogramStore(ctx, page)
        bins = page.words if page.bin_dtype == np.uint8 else self._row_bins
        self._page_arrays: tuple = (bins, page.columns, self._store.slot_ptr, page.n_bins, ())
        self._shared = None if page.bundles is None else SharedColumns(ctx, page, self._store.slot_ptr)
        if self._shared is not None:
            self.rowsets.columns, self.rowsets.layout = self._shared.columns, self._shared.layout
            self._page_arrays = (bins, self._shared.columns, self._store.slot_ptr, *self._shared.more_of_page)
        self._has_sparse = page.sparse is not None
        self._sampled: np.ndarray | None = None  # rows of the last sample, where all rows were partitioned
        self._row_updates = page.n_columns + (len(page.sparse.slots) // max(1, page.n_rows) if page.sparse else 0)
        self._missing_code = page.missing_code
        self._general = None if is_plain else GeneralSearch(ctx, page, monotone)
        if self._general is not None:
            self.rowsets.layout = self._general.layout
            self._page_arrays = (*self._page_arrays[:4], self._general.layout)
        self._team = Team(ctx.n_threads, level.carry_out if is_plain else level_general.carry_out)
        self._make_search_arrays(64)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        super().set_params(params)
        if self._general is not None:
            self._general.set_params(params)

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Grow one tree; `key` seeds its draws; `partition_all` also orders the rows of the deepest leaves."""
        if self._has_sparse:
            # sparse features have no column for long: no row may be looked at again once the tree is grown
            partition_all = True
            self._sampled = sampled
            if sampled is not None:
                gradients, sampled = gradients.only(sampled), None
        return super().grow(gradients, sampled, key, partition_all)

    def _stop(self) -> None:
        self._team.stop()

    def _start(self, gradients: QuantizedGradients, sampled: np.ndarray | None) -> np.ndarray:
        """The root: all (sampled) rows and their sums; returns it if it has a split."""
        store, root = self._store, self._nodes[0]
        self._gradients = gradients
        n_rows = self.rowsets.reset(sampled)
        store.reset()
        g, h = self._sum_root(gradients) if n_rows else (0, 0)
        root["start"], root["stop"], root["g"], root["h"] = 0, n_rows, g, h
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = 0
        store.reserve(1)
        if self._general is not None:
            self._general.start_tree()
        if self._interactions is not None:
            self._interactions.forget()
        expand.plan_root(self._nodes, self._limits, store.free, store.builds, self._evals, store.counts)
        store.counts[expand.ORDERED_ROWS] = len(self.rowsets.current)
        self._bind()
        if not store.counts[expand.BUILDS]:
            return NO_IDS
        if n_rows * self._row_updates >= TEAM_UPDATES:
            self._team.start(self._args)
        return self._carry_out(NO_IDS, n_rows)

    def _sum_root(self, gradients: QuantizedGradients) -> tuple[int, int]:
        return gradients.total(self._ctx, self.rowsets.current)

    def _open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        n_rows = expand.count_rows(self._room_for(len(batch)), batch)
        if self._has_sparse:
            assert self._shared is not None
            self._shared.fetch(self._nodes["feature"][batch])
        self._set_batch(batch)
        return self._carry_out(batch, n_rows)

    def _carry_out(self, batch: np.ndarray, n_rows: int) -> np.ndarray:
        """Both steps for a batch (none: the root) of n_rows: in one order, unless something comes between them."""
        counts, n_slots = self._store.counts, int(self._store.slot_ptr[-1])
        few_rows = n_rows * self._row_updates < TEAM_UPDATES
        if self._general is None and not self._differs_by_node:
            few_slots = max(1, 2 * len(batch)) * n_slots < TEAM_SLOTS
            self._team.order(level.OPEN_AND_FIND, self._args, few_rows and few_slots)
            if len(batch):
                self.rowsets.mark_split()
        else:
            self._team.order(level.OPEN, self._args, few_rows)
            if len(batch):
                self.rowsets.mark_split()
            n_evals = int(counts[expand.EVALS])
            self._prepare_search(batch, n_evals)
            self._team.order(level.FIND, self._args, n_evals * n_slots < TEAM_SLOTS)
        return self._opened[: int(counts[expand.OPENED])].copy()

    def _prepare_search(self, batch: np.ndarray, n_evals: int) -> None:
        """What FIND needs to know of the new nodes: bounds, features, and that row ids are written down."""
        if self._general is not None:
            self._general.bound_children(self._nodes, batch, self._reg)
        if self._differs_by_node:
            self._write_allowed(n_evals)
        self._store.counts[expand.ORDERED_ROWS] = len(self.rowsets.current)

    def _write_allowed(self, n_evals: int) -> None:
        super()._write_allowed(n_evals)
        if self._general is not None:
            self._plain_allowed[:] = self._general.without(self._allowed)

    def _features_of_nodes(self) -> np.ndarray:
        return super()._features_of_nodes() if self._general is None else self._general.feature_of(self._nodes)

    def _set_batch(self, batch: np.ndarray) -> None:
        """Tell the kernels which nodes come next, and whether rows are in their first order."""
        counts = self._store.counts
        self._batch[: len(batch)] = batch
        counts[expand.BATCH], counts[expand.ORDERED_ROWS] = len(batch), len(self.rowsets.current)

    def _close(self, batch: np.ndarray) -> None:
        """Make children, all leaves, without looking at their rows."""
        store, nodes = self._store, self._room_for(len(batch))
        if self._general is not None:
            self._set_batch(batch)
            self._team.order(level_general.SIDES, self._args, expand.count_rows(nodes, batch) < TEAM_UPDATES)
        n_left = np.zeros(len(batch), np.int64)
        plan = (store.free, store.builds, store.subtracts, self._evals, store.counts)
        expand.expand_nodes(nodes, batch, n_left, self._limits, *plan)
        if self._general is not None:
            self._general.bound_children(nodes, batch, self._reg)

    def _room_for(self, n_batch: int) -> np.ndarray:
        """The nodes, with room for the children of n_batch of them and for everything planned about them."""
        store = self._store
        n_nodes = int(store.counts[expand.NODES]) + 2 * n_batch
        grown = store.reserve(n_batch)
        if n_nodes > len(self._nodes):
            self._nodes, grown = np.concatenate([self._nodes, np.zeros(n_nodes, NODE)]), True
        if 2 * n_batch > len(self._evals):
            self._make_search_arrays(2 * n_batch)
            grown = True
        if grown:
            self._bind()
        return self._nodes

    def _make_search_arrays(self, n_batch: int) -> None:
        """Room for opening n_batch nodes at once and evaluating their children."""
        self._batch = np.zeros(n_batch, np.int32)
        self._evals, self._opened = np.zeros(2 * n_batch, np.int32), np.zeros(2 * n_batch, np.int32)
        n_bytes = 2 * n_batch * self._page.n_features * CANDIDATE.itemsize
        check_room(n_bytes, f"Finding splits among {self._page.n_features} features", "Give it fewer features.")
        self._best = np.empty((2 * n_batch, self._page.n_features), CANDIDATE)

    def _bind(self) -> None:
        """Bundle the arrays for kernels/cpu/level.py; followers that hold older ones go home and are called anew."""
        store = self._store
        if self._differs_by_node:
            self._allowed = np.zeros((len(self._evals), self._page.n_features), np.uint8)
        else:
            self._allowed = self._columns.allowed()
        plan = (self._limits, store.free, store.builds, store.subtracts, self._evals, store.counts)
        rowsets = self.rowsets.arrays(len(self._batch))
        sources = (rowsets, self._missing_code, self._gradients.arrays)
        plain = self._allowed
        extra = self._more_arrays()
        if self._general is not None:
            self._general.room_for(len(self._nodes))
            plain = self._plain_allowed = self._general.without(self._allowed)
            extra = (self._general.arrays(self._allowed),)
        search = (self._batch, self._opened, plain, self._reg, self._best, *store.scratch())
        self._args = (self._page_arrays, self._nodes, *sources, plan, store.arrays(), search, *extra)
        if self._team.stop():
            self._team.start(self._args)

    def _more_arrays(self) -> tuple:
        """What the kernel of a special kind of tree is given besides."""
        return ()

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int, sampled: np.ndarray | None) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        weights, nodes = grown.tree.threshold, grown.nodes
        self.rowsets.add_leaf_weights(nodes, grown.leaves, weights, margin, target)
        self.rowsets.add_split_weights(nodes, grown.last_splits, weights, margin, target)
        if sampled is not None and not self._has_sparse:
            chosen = np.zeros(self._page.n_rows, np.uint8)
            chosen[sampled] = 1
            rest: tuple = (weights, chosen, self._page.missing_code)
            args: tuple
            if self._general is None:
                args, add = (self._row_bins, self._routes(nodes), *rest), predict_bins.add_tree_by_bins
            else:
                args = (self._row_bins, nodes, *rest, self._general.categories)
                add = level_general.add_tree_by_sets
            self._ctx.run_ranges(self._page.n_rows, 8192, add, *args, target, margin)

    def _routes(self, nodes: np.ndarray) -> np.ndarray:
        """How to walk the nodes of a grown tree by codes: see kernels/cpu/routes.py."""
        table = np.empty((len(nodes), routes.N_ROUTE), np.int64)
        routes.write_routes(self.rowsets.layout, nodes, self._page.missing_code, table, 0, len(nodes))
        return table

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the training rows of grown.leaves, one leaf after the other."""
        starts, stops = grown.nodes["start"][grown.leaves], grown.nodes["stop"][grown.leaves]
        rows = self.rowsets.current if len(self.rowsets.current) else np.arange(stops.max(), dtype=np.int32)
        pieces = [rows[a:b] for a, b in zip(starts, stops, strict=True)]
        if self._sampled is not None:
            pieces = [piece[np.isin(piece, self._sampled)] for piece in pieces]
        return np.concatenate(pieces), np.append(0, np.cumsum([len(piece) for piece in pieces])).astype(np.int64)

    def _make_room(self, driver: Driver) -> int:
        """How many nodes may be opened at once; waiting nodes give up their histograms when buffers run out."""
        store = self._store
        least = store.capacity // 4
        if store.counts[expand.FREE] < least:
            waiting = driver.waiting()
            holders = waiting[self._nodes["hist"][waiting] >= 0]  # others have none to give: small, or asked before
            expand.release_histograms(self._nodes, holders[:least], store.free, store.counts)
        limit = max(1, int(store.counts[expand.FREE]) // 2)
        return min(limit, self._shared.n_spare) if self._shared is not None and self._has_sparse else limit

    def _finish(self, last_splits: np.ndarray) -> GrownTree:
        n = int(self._store.counts[expand.NODES])
        nodes, cuts = self._nodes[:n].copy(), self._page.cuts
        plain = nodes if self._general is None else self._general.as_plain(nodes)
        tree = self._make_tree(plain, cuts.ptr, cuts.values)
        if self._general is not None:
            self._general.finish(tree, nodes, self._reg, self._params.eta)
        return self._grown(tree, nodes, last_splits)

    @staticmethod
    def _grown(tree: Tree, nodes: np.ndarray, last_splits: np.ndarray) -> GrownTree:
        """The finished tree with those of its leaves that own rows."""
        left, right = tree.left, tree.right
        is_leaf = left < 0
        if len(last_splits):  # their children own no rows: the parent's range stands for both
            is_leaf[left[last_splits]] = is_leaf[right[last_splits]] = False
        return GrownTree(tree, nodes, np.flatnonzero(is_leaf).astype(np.int32), last_splits.astype(np.int32))
