"""The level engine on histograms of bins: rows in memory or on pages, on one machine or on workers.

Threads stay in compiled code for a whole tree and take orders (kernels/cpu/grow/level.py). Where nothing comes between
them, all steps of a level are one order.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from arboost.kernels.cpu.grow import arrays, level, nodes, paged, partition, routes
from arboost.kernels.dtypes import BUILD, BY_ROWS, CANDIDATE, FEW_ROWS, NODE, PIECE
from arboost.levels.base import NO_IDS, Features, Finished, Rules, TreeKind, Walk
from arboost.levels.buffers import HistogramStore
from arboost.levels.bundled import BundledColumns
from arboost.levels.finish import finish_nodes
from arboost.levels.quantize import FEWER_ROWS, QuantizedGradients
from arboost.levels.rowsets import RowSets
from arboost.levels.special import SpecialSearch
from arboost.levels.vectors import VectorGradients, VectorSums, weight_arrays
from arboost.matrix.page import BinnedPage
from arboost.matrix.store import count_rows, head_of, visit
from arboost.runtime.context import Context
from arboost.runtime.memory import check_room
from arboost.runtime.pool import Team

TEAM_SLOTS = 20_000  # histogram slots to scan that are
TEAM_UPDATES = 150_000  # (row, feature) pairs in a set of nodes that are worth calling other threads for
PLAIN_TREES = TreeKind()
_WALK_GRAIN = 8192
AGAIN_ROWS = FEWER_ROWS  # up to so many rows a node is searched once more: their packed sums cannot overflow


class HistogramEngine:
    """Grows trees on pages of binned rows.

    Parameters
    ----------
    ctx
        Threads and workers.
    pages
        The rows, in order; more than one are read one after the other, once a level.
    monotone
        (n_features,) the directions that weights must follow, 0 where they are free; or None.
    kind
        What is special about the trees.
    """

    def __init__(
        self,
        ctx: Context,
        pages: Sequence[BinnedPage],
        monotone: np.ndarray | None = None,
        kind: TreeKind = PLAIN_TREES,
    ):
        first, n_targets = head_of(pages), kind.n_targets
        is_special = bool(first.cuts.is_categorical.any() or (monotone is not None and monotone.any()) or kind.smooths)
        self._alone = ctx.comm.world_size == 1
        self._one_page = len(pages) == 1
        if self._one_page:
            first = pages[0]
            if is_special or n_targets or kind.counts_rows or kind.draws or not self._alone:
                first = first.unbundled(ctx)
            pages = [first]
        self._ctx, self._pages, self._cuts = ctx, pages, first.cuts
        self._n_features, self._n_rows = first.n_features, count_rows(pages)
        self._rowsets = RowSets(ctx, self._n_rows)
        self._store = HistogramStore(ctx, first, max(1, n_targets), kind.counts_rows)
        self._bundled = None if first.bundles is None else BundledColumns(ctx, first, self._store.slot_ptr)
        self._page = self._page_arrays(first)
        self._has_sparse = first.sparse is not None
        n_sparse = len(first.sparse.slots) // max(1, first.n_rows) if first.sparse else 0
        self._row_updates = (first.n_columns + n_sparse) * max(1, n_targets)
        self._special = SpecialSearch(ctx, first, _free(first, monotone), kind.smooths) if is_special else None
        self._vectors = VectorSums(ctx, first, n_targets) if n_targets else None
        self._symmetric = _symmetric_arrays(ctx, self._store.widest) if kind.symmetric else ()
        self._columns = _columns_drawn(np.zeros(0, np.int64))
        self._goes_on = False
        self._choice = arrays.Choice(np.zeros(1, np.uint64), np.zeros(2, np.int64))
        self._chooses = kind.counts_rows or kind.draws
        self._team = Team(ctx.n_threads, level.carry_out if self._one_page else paged.carry_out)
        self.nodes = np.zeros(256, NODE)
        self._sampled: np.ndarray | None = None
        self.few_rows = FEW_ROWS  # up to so many rows a node is searched by these, without a histogram
        self.worth_more: Callable[[np.ndarray], np.ndarray] | None = None
        self._make_search_arrays(64)

    def set_category_limits(self, max_cat_to_onehot: int, max_cat_threshold: int) -> None:
        """Take the limits of the search for sets of categories."""
        if self._special is not None:
            self._special.set_limits(max_cat_to_onehot, max_cat_threshold)

    # ---- one tree ----

    def start(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""
        self._sampled = sampled
        if self._has_sparse and sampled is not None:
            # sparse features have no column for long: rows that are not sampled go along, weighing nothing
            gradients, sampled = gradients.only(sampled), None
        store, root = self._store, self.nodes[0]
        self._gradients, self._rules = self._counted(gradients, rules), rules
        self._limits = self._make_limits(rules)
        if self._symmetric:
            store.hold(1 << (rules.max_depth - 1))
        n_rows = self._rowsets.reset(sampled)
        store.reset()
        root["g"], root["h"] = self._sum_root(gradients, sampled)
        if self._special is not None and rules.path_smooth:
            n_all = max(1, int(self._ctx.comm.allreduce_sum(np.array([n_rows], np.int64))[0]))
            self._special.set_smooth(rules.path_smooth * int(root["h"]) * gradients.h_unit / n_all)
        root["start"], root["stop"] = 0, n_rows
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = 0
        store.reserve(1)
        self._features, self._allowed = features, features.of_tree()
        is_small = self._ctx.n_threads == 1 or n_rows * self._row_updates < TEAM_UPDATES
        is_plain = is_small and self._one_page and self._alone and self.worth_more is None
        self._set_draw(features.drawn() if is_plain else None)
        is_alike = not features.differ or self._columns.n_chosen[0] > 0
        self._goes_on = rules.opens_levels and is_plain and is_alike and not self._has_sparse
        self._bind()
        nodes.plan_root(self._extra(), self.nodes, rules.reg, self._plan)
        if not store.counts[nodes.BUILDS]:
            return NO_IDS
        if not is_small:
            self._team.start(self._args)
        return self._advance(0, n_rows)

    def _set_draw(self, drawn: tuple[int, np.ndarray, int] | None) -> None:
        """Have kernels draw the features of nodes, or not."""
        self._columns = _columns_drawn(*((np.zeros(0, np.int64),) if drawn is None else drawn[1:]))
        self._columns.key[0] = 0 if drawn is None else drawn[0]

    def _sum_root(self, gradients: QuantizedGradients, sampled: np.ndarray | None) -> tuple[int, int]:
        if self._vectors is None:
            return gradients.total(self._ctx, sampled)
        return 0, self._vectors.start(self._ctx, gradients, sampled)

    def _counted(self, gradients: QuantizedGradients, rules: Rules) -> QuantizedGradients:
        """The gradients, with a plane that counts rows if these are needed and hessians do not count them."""
        self._choice.key[0] = rules.draw_key
        self._choice.rows[:] = rules.least_rows, 1
        if rules.least_rows <= 1 or gradients.counts_rows:
            return gradients
        self._choice.rows[1] = 2
        return gradients.with_counts()

    def _make_limits(self, rules: Rules) -> np.ndarray:
        """kernels/cpu/grow/nodes.py's limits: rows may be counted only where they are all here, and known."""
        by_rows = (2, self.few_rows, 1) if self._alone and self._one_page else (0, nodes.NEVER, 0)
        if self._symmetric:  # a node of one row stays in its level, and a level is searched by bins
            by_rows = (0, nodes.NEVER, by_rows[2])
        return np.array([rules.max_depth, rules.least_h, *by_rows], np.int64)

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        self._room_for(len(batch))
        n_rows = nodes.count_rows(self.nodes, batch)
        if self._bundled is not None and self._has_sparse:
            self._bundled.fetch(self.nodes["feature"][batch])
        self._batch[: len(batch)] = batch
        self._store.counts[nodes.BATCH] = len(batch)
        return self._advance(len(batch), n_rows)

    def _advance(self, n_batch: int, n_rows: int) -> np.ndarray:
        """All steps for the batch (none: the root) of n_rows: in one order, unless something comes between them."""
        counts, n_slots = self._store.counts, int(self._store.slot_ptr[-1])
        few_rows = n_rows * self._row_updates < TEAM_UPDATES
        move = level.SPLIT | level.PLAN if n_batch else 0
        if self._one_page and self._alone and (not self._features.differ or self._columns.n_chosen[0]):
            few_slots = max(1, 2 * n_batch) * n_slots < TEAM_SLOTS
            # from the root only: of a level that memory has parted, one part must not run ahead of the others
            steps = move | level.BUILD | level.FIND | (level.GO_ON if self._goes_on and not n_batch else 0)
            self._team.order(steps, self._args, few_rows and few_slots)
        else:
            if self._one_page:
                self._team.order(move | level.BUILD, self._args, few_rows)
            else:
                self._visit_pages(n_batch, few_rows)
            self._share()
            n_evals = int(counts[nodes.EVALS])
            if self._features.differ:
                # nodes of a symmetric level have the same features above them, and share one draw: that of the first
                n_masks = min(1, n_evals) if self._symmetric else n_evals
                self._features.write(self.nodes, self._evals[:n_masks], self._allowed)
            self._team.order(level.FIND, self._args, n_evals * n_slots < TEAM_SLOTS)
        opened = self._opened[: int(counts[nodes.OPENED])].copy()
        if self.worth_more is None or not self._features.differ or not (self._one_page and self._alone):
            return opened
        evals = self._evals[:n_evals].copy()
        useless = (self._allowed[:n_evals] != 0) & (self._best["score"][:n_evals] <= 0)
        self._features.pass_over(self.nodes, evals, useless)
        return np.sort(np.concatenate([opened, *self._search_again(evals, self.worth_more)]))

    def _search_again(self, tried: np.ndarray, worth_more: Callable[[np.ndarray], np.ndarray]) -> Iterator[np.ndarray]:
        """Search nodes that none of their features has parted on the next ones drawn, while some are left.

        `worth_more` tells which nodes can be parted at all. Histograms are gone: rows are looked at.
        """
        counts, turn = self._store.counts, 0
        while True:
            turn += 1
            tried = tried[self.nodes["feature"][tried] < 0]
            tried = tried[self.nodes["stop"][tried] - self.nodes["start"][tried] <= AGAIN_ROWS]
            tried = tried[worth_more(tried)] if turn == 1 else tried
            n = len(tried)
            if not n or not self._features.write_next(self.nodes, tried, self._allowed, turn):
                return
            self.nodes["hist"][tried] = BY_ROWS
            self._evals[:n] = tried
            counts[[nodes.EVALS, nodes.BY_ROWS_EVALS]] = n
            counts[[nodes.SUBTRACTS, nodes.BUILDS]] = 0
            self._team.order(level.FIND, self._args, n * self._row_updates * FEW_ROWS < TEAM_UPDATES)
            yield self._opened[: int(counts[nodes.OPENED])].copy()

    def node_means(self, ids: np.ndarray) -> np.ndarray:
        """(n, K) what nodes of the growing tree would weigh as leaves, without penalties."""
        if self._vectors is not None:
            return self._vectors.means(ids)
        gradients, found = self._gradients, self.nodes[ids]
        return (-found["g"] * gradients.g_unit / (found["h"] * gradients.h_unit))[:, None]

    def _visit_pages(self, n_batch: int, few_rows: bool) -> None:
        """Split and build, page by page; of pages on disk only what the level looks at is read."""
        store = self._store
        self._runs.counts[0] = 0
        if n_batch:
            self._team.order(level.PLAN, self._args, few_rows)
        else:
            store.buffers[store.builds["hist"][:1]] = 0
        columns = np.unique(self.nodes["feature"][self._batch[:n_batch]]).tolist()
        has_followers = self._team.stop()  # nobody spins while a page is waited for
        for page in visit(self._pages, columns, words=bool(store.counts[nodes.BUILDS])):
            self._page = self._page_arrays(page)
            self._rebind()
            if has_followers:
                self._team.start(self._args)
            self._team.order((level.SPLIT if n_batch else 0) | level.BUILD, self._args, few_rows)
            self._team.stop()
        if has_followers:
            self._team.start(self._args)
        if n_batch:
            self._team.order(paged.PLACE, self._args, few_rows)

    def _share(self) -> None:
        """Add up what the workers have built."""
        if self._alone:
            return
        store = self._store
        builds = store.builds[: int(store.counts[nodes.BUILDS])]
        if self._one_page:  # no rows here: nothing has set them; visiting pages begins with zeros
            store.buffers[builds["hist"][builds["start"] == builds["stop"]]] = 0
        if len(builds):  # on all workers, or on none: plans are alike
            store.buffers[builds["hist"]] = self._ctx.comm.allreduce_sum(store.gather(builds["hist"]))

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; returns the nodes whose rows stay where they are, never any if `partition_all`."""
        if partition_all or self._has_sparse:
            self.open(batch)
            return NO_IDS
        self._room_for(len(batch))
        nodes.make_leaves(self._extra(), self.nodes, batch, self._rules.reg, self._store.counts)
        return batch

    def stop(self) -> None:
        """Send other threads home."""
        self._team.stop()

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once; waiting nodes give up their histograms when buffers run out."""
        store = self._store
        if self._symmetric:  # a whole level: there are buffers for it, and it is split on one feature
            return store.capacity + 1
        least = store.capacity // 4
        if store.counts[nodes.FREE] < least:
            later = waiting()
            holders = later[self.nodes["hist"][later] >= 0]  # others have none to give: small, or asked before
            nodes.release_histograms(self.nodes, holders[:least], store.free, store.counts)
        limit = max(1, int(store.counts[nodes.FREE]) // 2)
        return min(limit, self._bundled.n_spare) if self._bundled is not None and self._has_sparse else limit

    # ---- the grown tree ----

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta."""
        cuts, n_targets = self._cuts, 0 if self._vectors is None else self._vectors.n_targets
        nodes_made, of_cuts = self._made_nodes(), (cuts.ptr, cuts.values, cuts.min_values)
        tree = finish_nodes(nodes_made, of_cuts, self._extra(), self._rules.reg, eta, n_targets=n_targets)
        if self._special is None:
            return tree
        set_nodes, set_bits = self._special.sets(tree.links[0])
        return tree._replace(set_nodes=set_nodes, set_bits=set_bits)

    def weigh_again(self, gradients: VectorGradients, leaves: np.ndarray, eta: np.float32) -> Finished:
        """The tree with the weights that other gradients ask for; the rows of all leaves are parted."""
        made, cuts = self._made_nodes(), self._cuts
        rows, leaf_ptr = self.leaf_rows(leaves)
        sums = np.zeros((len(made), 2 * len(gradients.targets)), np.int64)
        sums[leaves] = gradients.totals_of_leaves(self._ctx, rows, leaf_ptr)
        for node in range(len(made) - 1, 0, -1):  # children come after their parents
            sums[made["parent"][node]] += sums[node]
        extra, of_cuts = weight_arrays(gradients, sums), (cuts.ptr, cuts.values, cuts.min_values)
        return finish_nodes(made, of_cuts, extra, self._rules.reg, eta, n_targets=len(gradients.targets))

    def _made_nodes(self) -> np.ndarray:
        return self.nodes[: int(self._store.counts[nodes.NODES])]

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows; `closed` are the nodes that `close` returned."""
        weights = walk.weights
        self._rowsets.add_leaf_weights(self.nodes, leaves, weights, margin, target)
        if len(closed):
            self._add_closed_weights(closed, weights, margin, target)
        if self._sampled is not None and not self._has_sparse:
            chosen = np.zeros(self._n_rows, np.uint8)
            chosen[self._sampled] = 1
            self.walk(self._pages, chosen, weights, margin, target)

    def _add_closed_weights(self, closed: np.ndarray, weights: np.ndarray, margin: np.ndarray, target: int) -> None:
        """Weights for the rows of nodes whose children are leaves, and which were not parted."""
        args, rowsets = (closed, weights, margin, target), self._rowsets
        if self._one_page:
            rowsets.add_split_weights(self._page, self._extra(), self.nodes, *args)
            return
        narrowed = self._made_nodes().copy()
        for page in visit(self._pages, np.unique(self.nodes["feature"][closed]).tolist(), words=False):
            place = (rowsets.ids, rowsets.in_order, page.first_row, page.n_rows)
            paged.narrow(self.nodes, closed, *place, narrowed, 0, len(closed))
            rowsets.add_split_weights(self._page_arrays(page), self._extra(), narrowed, *args)

    def walk(
        self, pages: Sequence[BinnedPage], skip: np.ndarray, weights: np.ndarray, margin: np.ndarray, target: int
    ) -> None:
        """Add weights to the margins of rows r with skip[r] == 0: each walks the tree by its bins, wherever it lies."""
        n, extra = int(self._store.counts[nodes.NODES]), self._extra()
        missing_code = self._page[arrays.Page._fields.index("missing_code")]
        layout = self._page[arrays.Page._fields.index("layout")]
        table = np.empty((n, routes.N_ROUTE), np.int64)
        routes.write_routes(layout, extra, self.nodes, missing_code, table, 0, n)
        for page in visit(pages, columns=()):
            bins = page.words.view(page.bin_dtype)
            first_row = () if len(pages) == 1 else page.first_row
            args = (bins, first_row, table, extra, weights, skip, missing_code, target, margin)
            self._ctx.run_ranges(page.n_rows, _WALK_GRAIN, partition.add_weights_by_bins, *args)

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
        return self._rowsets.leaf_rows(self.nodes, leaves, self._sampled if self._has_sparse else None)

    # ---- arrays ----

    def _page_arrays(self, page: BinnedPage) -> tuple:
        """A page as the kernels see it."""
        bins = page.words if page.bin_dtype == np.uint8 else page.words.view(page.bin_dtype)
        scalars = (page.missing_code, () if self._one_page else page.first_row)
        if self._bundled is None:
            return tuple(arrays.Page(bins, page.columns, self._store.slot_ptr, page.n_bins, *scalars))
        of_columns = (self._bundled.columns, self._store.slot_ptr, self._bundled.n_codes)
        return arrays.plain(arrays.Page(bins, *of_columns, *scalars, *self._bundled.fields))

    def _extra(self) -> tuple:
        """What is special about this kind of tree, as the kernels see it."""
        extra = self._special or self._vectors
        return extra.arrays(len(self.nodes)) if extra is not None else ()

    def _room_for(self, n_batch: int) -> None:
        """Room for the children of n_batch nodes and for everything planned about them."""
        store = self._store
        n_nodes = int(store.counts[nodes.NODES]) + 2 * n_batch
        grown = store.reserve(n_batch)
        if n_nodes > len(self.nodes):
            self.nodes, grown = np.concatenate([self.nodes, np.zeros(n_nodes, NODE)]), True
        if 2 * n_batch > len(self._evals):
            self._make_search_arrays(2 * n_batch)
            grown = True
        if grown:
            self._bind()

    def _make_search_arrays(self, n_batch: int) -> None:
        """Room for opening n_batch nodes at once and evaluating their children."""
        self._batch = np.zeros(n_batch, np.int32)
        self._evals, self._opened = np.zeros(2 * n_batch, np.int32), np.zeros(2 * n_batch, np.int32)
        n_best = 1 if self._symmetric else 2 * n_batch
        n_bytes = n_best * self._n_features * CANDIDATE.itemsize
        check_room(n_bytes, f"Finding splits among {self._n_features} features", "Give it fewer features.")
        self._best = np.empty((n_best, self._n_features), CANDIDATE)
        pieces = np.zeros(0 if self._one_page else len(self._pages) * n_batch, PIECE)
        spans, builds = np.zeros((n_batch, 2), np.int64), np.zeros(2 * n_batch, BUILD)
        self._runs = arrays.Runs(pieces, spans, builds, np.zeros(1, np.int64))

    def _bind(self) -> None:
        """Bundle the arrays for the kernels after some have been replaced."""
        if self._features.differ:
            n_masks = 1 if self._symmetric else len(self._evals)
            self._allowed = np.zeros((n_masks, self._n_features), np.uint8)
        self._rebind()

    def _rebind(self) -> None:
        """Bundle the arrays for the kernels; followers that hold older ones go home and are called anew."""
        store = self._store
        rows = tuple(self._rowsets.arrays(len(self._batch)))
        self._plan = store.plan(self._limits, self._evals)
        search = (
            self._batch, self._opened, self._allowed, self._rules.reg, self._best, *store.scratch,
            tuple(self._columns), self._symmetric, tuple(self._choice) if self._chooses else (),
        )  # fmt: skip
        of_level = (rows, self._gradients.arrays, self._plan, store.arrays, search, self._extra())
        runs = () if self._one_page else (tuple(self._runs),)
        self._args = ((self._page, self.nodes, *of_level, *runs),)
        if self._team.stop():
            self._team.start(self._args)


def _columns_drawn(features: np.ndarray, n: int = 0) -> arrays.Columns:
    """What the kernels call columns, the key still to be written; n = 0: nothing is drawn."""
    draws = np.empty((2, len(features)), np.float64)
    return arrays.Columns(np.zeros(1, np.uint64), features, np.array([n], np.int64), draws)


def _symmetric_arrays(ctx: Context, widest: int) -> tuple:
    """What the kernels call symmetric."""
    scores = np.empty((ctx.n_threads, 2, widest), np.float64)
    return tuple(arrays.Symmetric(scores, scores.view(np.int64)))


def _free(page: BinnedPage, monotone: np.ndarray | None) -> np.ndarray:
    """Directions of all features, 0 where nothing is said."""
    return np.zeros(page.n_features, np.int64) if monotone is None else monotone
