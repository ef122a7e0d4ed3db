"""The level engine on a CUDA device: bins, rows, gradients and histograms stay there, the host sees nodes.

Where nothing comes between the levels, the device opens one after the other on its own, and nothing is left for the
growth loop to open. Sums are those of the same integers, scores come of the same formulas: the tree is that of
the CPU to the bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.kernels.gpu import arrays, choice, grow, histogram, partition, quantize
from arboost.kernels.gpu import round as ops
from arboost.kernels.gpu.device import Device, Launch
from arboost.kernels.gpu.margin import add_weights
from arboost.levels.base import NO_IDS, Features, Finished, Rules, TreeKind, Walk
from arboost.levels.device_special import DeviceSpecial, SpecialNodes
from arboost.levels.finish import finish_nodes
from arboost.levels.quantize import NOT_FINITE, QuantizedGradients
from arboost.levels.rowsets import rows_by_node
from arboost.matrix.device import DevicePage, DeviceValues
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

MAX_BYTES = 1 << 31  # memory for histograms, or a quarter of what is free
MAX_AHEAD = 12  # levels that the device opens on its own: it has room for all their nodes
N_SAMPLED, MAX_DEPTH, ETA = 10, 20, 23  # arguments of kernels/gpu/grow.py's grow_tree that change from tree to tree
# What the host reads of a tree lies in one block of memory, and is one copy
_STATE, _REG, _FOUND, _NODES = slice(0, 64), slice(64, 128), slice(128, 264), slice(320, None)


@dataclass(frozen=True)
class DeviceGradients(QuantizedGradients):
    """Integer gradients on a device."""

    device: Device = field(kw_only=True)

    def only(self, rows: np.ndarray) -> "QuantizedGradients":
        raise NotImplementedError  # for sparse pages, which are not on devices

    def total(self, ctx: Context, rows: Any) -> tuple[int, int]:
        """Integer sums (g, h) over the first so many of `rows`, (2, n) on the device; None: over all."""
        if self.sums is not None and rows is None:
            return self.sums
        ids, n = (_all_rows(self.device, self.planes.shape[1]), self.planes.shape[1]) if rows is None else rows
        sums = self.device.upload(np.zeros(2, np.int64))
        self.device.run(ops.sum_rows, self.planes, ids, n, int(self.packings[0, 0]), sums)
        g, h = sums.copy_to_host()
        return int(g), int(h)


def _all_rows(device: Device, n: int) -> Any:
    return device.upload(np.arange(n, dtype=np.int32)[None, :])


class KeptTree(NamedTuple):
    """A tree that the device has grown in one go, in place of the gradients it was grown from."""

    slot: "TreeSlot"
    g_unit: float
    h_unit: float


class TreeSlot:
    """Where a tree of so many nodes lies on the device, and what the host sees of it: one copy brings all of that."""

    def __init__(self, device: Device, capacity: int, special: DeviceSpecial | None):
        n_plain = _NODES.start + capacity * NODE.itemsize
        n_bytes = n_plain + (0 if special is None else capacity * special.bytes_of_node)
        self.block, self.host = device.empty(n_bytes, np.uint8), device.pinned(n_bytes, np.uint8)
        self.state, self.reg = self.block[_STATE].view(np.int64), self.block[_REG].view(np.float64)
        nodes = slice(_NODES.start, n_plain)
        self.found, self.nodes = self.block[_FOUND].view(np.int64), self.block[nodes].view(NODE)
        self.table, self.weights = device.empty((capacity, 4), np.int32), device.empty(capacity, np.float32)
        self.host_state, self.host_reg = self.host[_STATE].view(np.int64), self.host[_REG].view(np.float64)
        self.host_found, self.host_nodes = self.host[_FOUND].view(np.int64), self.host[nodes].view(NODE)
        self.special: SpecialNodes | None = None
        self.arguments: tuple[tuple, tuple] = (), ()  # what the kernels call bounds and sets
        if special is not None:
            self.special, self.host_special = (special.nodes_in(b[n_plain:], capacity) for b in (self.block, self.host))
            self.arguments = special.arguments(self.special)
        self.capacity = capacity
        self.reg_sent = np.zeros(0)  # what the device has in `reg`, units aside
        self.launches: dict[tuple, tuple[tuple, Launch]] = {}

    def fetch(self) -> None:
        """Bring nodes and counters to the host."""
        self.block.copy_to_host(self.host)

    def fetch_later(self, device: Device) -> None:
        """Begin to bring nodes and counters to the host."""
        device.copy_later(self.block, self.host)

    def send_reg(self, reg: np.ndarray) -> None:
        """Send the parameters of gains and weights (8,), if they are other ones than the last."""
        if not np.array_equal(reg, self.reg_sent):
            self.reg.copy_to_device(reg)
            self.reg_sent = reg.copy()


@dataclass(eq=False)
class DeviceMargin:
    """Margins (n, K) float32 that live on a device."""

    values: Any
    walk: tuple[Any, tuple] | None = None  # how its rows walk trees (`DeviceEngine.walk_of`); None: those of training
    launches: dict[tuple[int, int], tuple["TreeSlot", Launch]] = field(default_factory=dict)


class DeviceEngine:
    """Grows trees on one page of binned rows, in the memory of a device."""

    def __init__(self, ctx: Context, device: Device, page: BinnedPage, monotone: np.ndarray, kind: TreeKind):
        device.use()
        self._ctx, self.device = ctx, device
        self._cuts, self.n_rows, self._n_features = page.cuts, page.n_rows, page.n_features
        self._wide = page.bin_dtype == np.uint16
        self._missing = page.missing_code
        is_there = isinstance(page, DevicePage)
        more = 36 * self.n_rows + (0 if is_there else page.words.nbytes)
        check_memory(device, more, f"{self.n_rows} rows x {page.n_features} features")
        words = page.on_device if isinstance(page, DevicePage) else device.upload(page.words.view(np.uint32))
        self._rows = device.empty((2, self.n_rows), np.int32)
        self._values = device.empty((1, self.n_rows), np.int64)
        self._add: Any = None
        n_bins = page.n_bins.astype(np.int32)
        slot_ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
        n_slots = int(slot_ptr[-1])
        self._width = 3 * n_slots + 1 if kind.counts_rows else 2 * n_slots
        self._chosen: tuple = ()  # kernels/gpu/choice.py
        if kind.counts_rows or kind.draws:
            self._chosen = (device.upload(np.zeros(1, np.uint64)), device.upload(np.zeros(2, np.int64)))
        n_words = -(-page.n_features // (2 if self._wide else 4))
        of_bins = (device.upload(slot_ptr), device.upload(n_bins))
        self._page = (words, n_words, self._wide, self._missing, *of_bins)
        self._walked = (self._page[0], self._wide, self._missing)
        self._hist: Any = None  # these are made when it is known how many are needed
        self._lists: Any = None
        self._n_asked = self._n_buffers = self._capacity = self._n_nodes = 0
        self._slots: list[TreeSlot] = []
        self._masks, self._allowed = np.zeros(0, np.uint8), None
        self._n_failed, self._none_failed = (device.upload(np.zeros(1, np.int64)) for _ in range(2))
        self._is_kept = False
        is_special = page.cuts.is_categorical.any() or monotone.any() or kind.smooths
        self._special = DeviceSpecial(ctx, device, page, monotone, kind.smooths) if is_special else None

    def set_category_limits(self, max_cat_to_onehot: int, max_cat_threshold: int) -> None:
        """Take the limits of the search for sets of categories."""
        if self._special is not None:
            self._special.set_limits(max_cat_to_onehot, max_cat_threshold)

    @property
    def nodes(self) -> np.ndarray:
        """NODE records of the tree that is growing."""
        return self._slot.host_nodes

    # ---- one tree ----

    def start(
        self, gradients: QuantizedGradients | KeptTree, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""
        self._rules, self._features, self._sampled = rules, features, sampled
        self._is_kept = isinstance(gradients, KeptTree)
        if isinstance(gradients, KeptTree):
            self._slot = gradients.slot
            self._note_counts()
            return NO_IDS  # nothing is left to open
        self._n_nodes = 0
        self._n_sampled = self._send_rows(sampled)
        self._ahead = rules.opens_all and self.reserve_ahead(rules.max_depth)
        if not self._ahead:
            self._reserve(256, 64)
        self._slot = self.slot(0)
        masks = features.of_tree()
        if features.differ:
            masks = np.zeros((2, self._n_features), np.uint8)
            features.write(_root(0, 0, 0), np.zeros(1, np.int32), masks)
        self._allow(masks)
        found = self._begin(gradients)
        return NO_IDS if self._ahead else found

    def _choose(self, least_rows: int, draw_key: int, plane: int = 0) -> None:
        """Say which candidates the next tree takes, and, if the device cannot find out, which plane counts rows."""
        if self._special is not None:
            self._special.send_limits()
        if self._chosen:
            self._chosen[0].copy_to_device(np.array([draw_key], np.uint64))
            self._chosen[1].copy_to_device(np.array([least_rows, plane], np.int64))

    def _send_rows(self, sampled: np.ndarray | None) -> int:
        """Send the rows of a sample; returns how many there are, -1 for all rows."""
        if sampled is None:
            return -1
        if len(sampled):
            self._rows[0, : len(sampled)].copy_to_device(sampled.astype(np.int32))
        return len(sampled)

    def reserve_ahead(self, max_depth: int) -> bool:
        """Make room for whole trees of this depth, if they can be grown without asking the host."""
        if not 0 < max_depth <= MAX_AHEAD:
            return False
        self._reserve(2 << max_depth, 1 << max(4, max_depth - 1))
        return self._n_buffers >= 1 << (max_depth - 1)

    def slot(self, which: int) -> TreeSlot:
        """A place for a tree; there are as many as are asked for."""
        while len(self._slots) <= which:
            self._slots.append(TreeSlot(self.device, self._capacity, self._special))
        return self._slots[which]

    def launch_tree(
        self, slot: TreeSlot, g: Any, h: Any, sampled: np.ndarray | None, masks: np.ndarray, reg: np.ndarray,
        path_smooth: float, max_depth: int, eta: np.float32, least_rows: int, draw_key: int,
    ) -> None:  # fmt: skip
        """Let the device grow a whole tree from float32 gradients; reg: up to gamma, the device finds the units."""
        self._choose(least_rows, draw_key)
        slot.send_reg(np.append(reg, [0.0, 0.0, path_smooth]))
        self._allow(masks)
        n_sampled = self._send_rows(sampled)
        used = (g, h, self._values, self._hist, self._lists, self._allowed)
        launch = slot.launches.get((id(g), id(h)))
        if launch is None or any(a is not b for a, b in zip(used, launch[0], strict=True)):
            launch = used, self.device.prepare(
                grow.grow_tree, self.device.n_processors, *self._page, g, h, self._values, self._rows, n_sampled,
                slot.nodes, self._lists, self._moved, slot.state, self._hist, self._best, self._allowed, slot.reg,
                slot.found, max_depth, slot.table, slot.weights, eta, self._n_failed,
                *slot.arguments, self._chosen,
            )  # fmt: skip
            slot.launches[id(g), id(h)] = launch
        launch[1]({N_SAMPLED: n_sampled, MAX_DEPTH: max_depth, ETA: eta})

    def fetched_tree(self, slot: TreeSlot) -> KeptTree | None:
        """The tree that was launched and fetched; None: gradients need a plane each, for which there is room now."""
        bad = slot.host_found[quantize.IS_BAD]
        if bad != quantize.GOOD:
            self.forget_failed()
        if bad == quantize.NOT_FINITE:
            raise XGBoostError(NOT_FINITE)
        if bad == quantize.NEEDS_PLANES:
            if len(self._values) < 2:
                self._values = self.device.empty((2, self.n_rows), np.int64)
            return None
        return KeptTree(slot, *slot.host_reg[5:7].tolist())

    def forget_failed(self) -> None:
        """Trees that were launched so far will not be added; those to come may be."""
        self._n_failed.copy_to_device(np.zeros(1, np.int64))

    def prepare_on_tree(self, slot: TreeSlot, kernel: Any, *args: Any) -> Launch:
        """A launch of blocks that work together on the rows, and on the weights of a tree that was launched before."""
        of_tree = (*self._walked, slot.table, slot.state, self._n_failed)
        return self.device.prepare(kernel, self.device.n_processors, *of_tree, *args, slot.weights, slot.arguments[1])

    def add_kept(self, slot: TreeSlot, margin: "DeviceMargin", target: int) -> None:
        """Add the weights of a tree that was launched to the margins, unless one of those beside it has failed."""
        launch = margin.launches.get((id(slot), target))
        if launch is None or launch[0] is not slot:
            kernel, walked = margin.walk or (grow.add_weights, self._walked)
            args = (*walked, slot.table, slot.weights, self._n_failed, target, margin.values)
            sets = (slot.arguments[1],) if kernel is grow.add_weights else ()  # values walk by thresholds alone
            n_blocks = self.device.blocks_of(margin.values.shape[0])
            launch = margin.launches[id(slot), target] = slot, self.device.prepare(kernel, n_blocks, *args, *sets)
        launch[1]({})

    def walk_of(self, rows: "DeviceValues | BinnedPage") -> tuple[Any, tuple] | None:
        """How rows that no tree is grown on walk trees, by values or bins: a kernel that adds weights, its arguments.

        None: they are in other bins, or values where there are categories.
        """
        cuts = self._cuts
        if isinstance(rows, DeviceValues):
            if cuts.is_categorical.any():
                return None  # their sets are of codes
            of_bins = (cuts.ptr.astype(np.int32), cuts.values, cuts.min_values)
            return add_weights, (rows.values, self._wide, *(self.device.upload(array) for array in of_bins))
        is_same = np.array_equal(rows.cuts.ptr, cuts.ptr) and np.array_equal(rows.cuts.values, cuts.values)
        if not is_same or (rows.bin_dtype == np.uint16) != self._wide:
            return None
        words = rows.on_device if isinstance(rows, DevicePage) else self.device.upload(rows.words.view(np.uint32))
        return grow.add_weights, (words, self._wide, self._missing)

    def _begin(self, gradients: QuantizedGradients) -> np.ndarray:
        """The root, or all levels, from integer gradients."""
        slot, rules = self._slot, self._rules
        if not isinstance(gradients, DeviceGradients):
            gradients = self._uploaded(gradients)
        self._gradients = gradients
        n_rows = self.n_rows if self._n_sampled < 0 else self._n_sampled
        rows = None if self._n_sampled < 0 else (self._rows, n_rows)
        counts = gradients.counts_rows or rules.least_rows <= 1
        self._choose(rules.least_rows, rules.draw_key, 1 if counts else choice.COUNTS)
        slot.reg_sent = np.zeros(0)
        slot.reg.copy_to_device(np.append(rules.reg, rules.path_smooth))
        slot.nodes[:1].copy_to_device(_root(*gradients.total(self._ctx, rows), n_rows))
        state = np.zeros(arrays.N_STATE, np.int64)
        state[arrays.NODES], state[arrays.FREE] = 1, self._n_buffers
        slot.state.copy_to_device(state)
        self._lists[arrays.FREE_IDS, : self._n_buffers].copy_to_device(np.arange(self._n_buffers, dtype=np.int32))
        return self._advance(1, rules.max_depth if self._ahead else 0, rules.max_depth - 1 if self._ahead else -1)

    def _uploaded(self, gradients: QuantizedGradients) -> DeviceGradients:
        planes = self.device.upload(gradients.planes)
        of_host = (gradients.packings, gradients.g_unit, gradients.h_unit, gradients.sums, gradients.counts_rows)
        return DeviceGradients(planes, *of_host, device=self.device)

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        self._send(batch)
        if self._features.differ:
            self._send_masks(batch)
        return self._advance(begins=0, n_levels=1)

    def _send(self, batch: np.ndarray) -> None:
        """Tell the device which nodes to open."""
        self._reserve(self._n_nodes + 2 * len(batch), 0)
        self._lists[arrays.BATCH_IDS, : len(batch)].copy_to_device(batch.astype(np.int32))
        self._slot.state[arrays.BATCH : arrays.BATCH + 1].copy_to_device(np.array([len(batch)], np.int64))

    def _send_masks(self, batch: np.ndarray) -> None:
        """Which features the children of the batch may use; they are numbered in its order."""
        children = np.arange(self._n_nodes, self._n_nodes + 2 * len(batch), dtype=np.int32)
        records = np.zeros(self._n_nodes + 2 * len(batch), NODE)
        records[: self._n_nodes] = self.nodes[: self._n_nodes]
        records["parent"][children] = np.repeat(batch, 2)
        records["depth"][children] = records["depth"][records["parent"][children]] + 1
        records["left"][batch], records["right"][batch] = children[::2], children[1::2]
        masks = np.zeros((len(children), self._n_features), np.uint8)
        self._features.write(records, children, masks)
        self._allow(masks)

    def _allow(self, masks: np.ndarray) -> None:
        """Send masks of features, if they are other ones than the last."""
        if not np.array_equal(masks, self._masks):
            self._masks, self._allowed = masks.copy(), self.device.upload(masks)

    def _advance(self, begins: int, n_levels: int, close_at: int = -1) -> np.ndarray:
        """Let the device open the batch, and n_levels in all; returns what it would open next."""
        rules, packing = self._rules, self._gradients.packings[0]
        shift, parts, most_rows = self._layout(int(packing[0]), int(packing[2]))
        self.device.prepare(
            grow.grow, self.device.n_blocks, *self._page, self._gradients.planes, shift, parts, most_rows, self._rows,
            self._n_sampled < 0, self._slot.nodes, self._lists, self._moved, self._slot.state, self._hist, self._best,
            self._allowed, self._slot.reg, rules.max_depth, rules.least_h, begins, n_levels, close_at,
            *self._slot.arguments, self._chosen,
        )({})  # fmt: skip
        self._slot.fetch()
        self._note_counts()
        n = int(self._slot.host_state[arrays.BATCH])
        return self._lists[arrays.BATCH_IDS, :n].copy_to_host() if n else NO_IDS

    def _note_counts(self) -> None:
        state = self._slot.host_state
        self._n_nodes, self._n_free = int(state[arrays.NODES]), int(state[arrays.FREE])

    def _layout(self, shift: int, n_block: int) -> tuple[int, int, int]:
        """(shift, parts, rows that a block may add up): kernels/gpu/histogram.py."""
        if self._wide:
            return shift, histogram.DIRECT, 4096
        if shift == 32:
            return shift, histogram.HALVES, min(n_block, 8192)
        bits = 63 - shift - n_block.bit_length() if shift else 40
        return (shift, histogram.QUARTERS, 1024) if bits <= histogram.QUARTER_BITS else (shift, histogram.DIRECT, 4096)

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; rows find theirs by their bins, so the children own them as other leaves do."""
        self._send(batch)
        self._advance(begins=0, n_levels=1, close_at=int(self.nodes["depth"][batch[0]]))
        return NO_IDS

    def stop(self) -> None:
        """Nothing is left running."""

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once; waiting nodes give up their histograms when buffers run out."""
        least = self._n_buffers // 4
        if self._n_free < least:
            later = waiting()
            holders = later[self.nodes["hist"][later] >= 0][:least]
            self._release(holders)
        return max(1, self._n_free // 2)

    def _release(self, holders: np.ndarray) -> None:
        """Take the buffers of some nodes back."""
        if not len(holders):
            return
        freed = self.nodes["hist"][holders].astype(np.int32)
        self._lists[arrays.FREE_IDS, self._n_free : self._n_free + len(freed)].copy_to_device(freed)
        self._n_free += len(freed)
        self._slot.state[arrays.FREE : arrays.FREE + 1].copy_to_device(np.array([self._n_free], np.int64))
        self.nodes["hist"][holders] = -1
        self._slot.nodes[: self._n_nodes].copy_to_device(self.nodes[: self._n_nodes])

    # ---- the grown tree ----

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta."""
        cuts, made, special = self._cuts, self.nodes[: self._n_nodes], self._special
        of_cuts = (cuts.ptr, cuts.values, cuts.min_values)
        if special is None:
            return finish_nodes(made, of_cuts, (), self._rules.reg, eta)
        root = made[0]
        if self._rules.path_smooth:
            n_rows = max(1, int(root["stop"] - root["start"]))
            special.on_host.set_smooth(self._rules.path_smooth * int(root["h"]) * self._rules.reg[-1] / n_rows)
        special.on_host.take(made, *self._slot.host_special)
        tree = finish_nodes(made, of_cuts, special.on_host.arrays(len(made)), self._rules.reg, eta)
        set_nodes, set_bits = special.on_host.sets(tree.links[0])
        return tree._replace(set_nodes=set_nodes, set_bits=set_bits)

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: Any, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows: each walks the tree by its bins."""
        if self._is_kept:
            return  # `add_kept` does it
        device, weights = self.device, self.device.upload(walk.weights.astype(np.float32))
        of_tree, sets = (*self._walked, self._write_table(), weights, self._none_failed), self._slot.arguments[1]
        if isinstance(margin, DeviceMargin):
            device.run(grow.add_weights, *of_tree, target, margin.values, sets)
            return
        if self._add is None:
            self._add = device.empty((self.n_rows, 1), np.float32)
        self._add.copy_to_device(np.ascontiguousarray(margin[:, target : target + 1]))
        device.run(grow.add_weights, *of_tree, 0, self._add, sets)
        margin[:, target] = self._add.copy_to_host()[:, 0]

    def _write_table(self) -> Any:
        """How rows walk the tree: kernels/gpu/partition.py."""
        made = self.nodes[: self._n_nodes]
        places, bins = made["feature"] * (16 if self._wide else 8), made["bin"]
        if self._special is not None:
            bins = np.where(self._cuts.is_categorical[made["feature"]], partition.BY_SET, bins)
        return self.device.upload(np.stack([made["left"], places, bins, made["default_left"]], axis=1).astype(np.int32))

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
        found = self.device.empty(self.n_rows, np.int32)
        self.device.run(grow.find_leaves, *self._walked, self._write_table(), found, self._slot.arguments[1])
        node_of_row = found.copy_to_host()
        if self._sampled is not None:
            node_of_row[np.isin(np.arange(self.n_rows), self._sampled, invert=True)] = -1
        return rows_by_node(node_of_row, leaves)

    # ---- memory ----

    def _reserve(self, n_nodes: int, n_buffers: int) -> None:
        """Room for so many nodes, and for so many histograms if they fit."""
        device = self.device
        if n_buffers > self._n_asked:
            self._hist = self._best = None  # before more is taken
            of_node = 8 * self._width + CANDIDATE.itemsize * self._n_features
            most = min(MAX_BYTES, device.free_bytes() // 4) // of_node
            self._n_asked, self._n_buffers = n_buffers, max(16, min(n_buffers, most))
            check_memory(device, of_node * self._n_buffers, f"histograms of {self._n_buffers} nodes")
            self._hist = device.empty((self._n_buffers, self._width), np.int64)
            self._best = device.empty((self._n_buffers, self._n_features), CANDIDATE)  # who is searched has a histogram
        if max(n_nodes, self._n_buffers) + 1 > self._capacity:
            self._make_nodes(2 * max(n_nodes, self._n_buffers))

    def _make_nodes(self, capacity: int) -> None:
        """Arrays for so many nodes; a tree that is growing keeps its own."""
        device, kept, before = self.device, self._n_nodes, self._capacity
        lists, slots = device.empty((arrays.N_LISTS, capacity), np.int32), self._slots
        self._capacity, self._slots = capacity, []
        if kept:
            for which in range(arrays.N_LISTS):
                lists[which, :before].copy_to_device(self._lists[which, :before])
            n_bytes = _NODES.start + kept * NODE.itemsize
            self._slot = self.slot(0)
            self._slot.block[:n_bytes].copy_to_device(slots[0].block[:n_bytes])
            if self._slot.special is not None and slots[0].special is not None:
                self._slot.special.copy_from(slots[0].special, kept)
            self._slot.fetch()
        self._lists = lists
        self._moved = device.empty((capacity, 2), np.int32)


def _root(g: int, h: int, n_rows: int) -> np.ndarray:
    """The record of a root that is not split."""
    root = np.zeros(1, NODE)
    root["g"], root["h"], root["stop"] = g, h, n_rows
    for name in ("left", "right", "feature", "parent", "hist"):
        root[name] = -1
    return root


def check_memory(device: Device, n_bytes: int, what: str) -> None:
    """Refuse what cannot fit before anything of it is made."""
    free = device.free_bytes()
    if n_bytes > free:
        raise XGBoostError(
            f"device='cuda': {what} need {n_bytes / 1e9:.1f} GB on the device, {free / 1e9:.1f} GB are free. Use a "
            "smaller max_bin or max_depth, or device='cpu'."
        )
