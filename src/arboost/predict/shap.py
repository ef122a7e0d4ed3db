"""Explanations: how much each feature adds to a row's margin. The mathematics stands in `ops.shap`.

Exact values are path-dependent TreeSHAP (Lundberg et al. 2018), computed by quadrature along the lines of Linear
TreeSHAP (Yu et al. 2022); approximate ones are Saabas'. An `Explainer` holds all trees, packed for the kernels.
A linear leaf counts as its constant, which is its mean; what its terms add to that belongs to their features.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from arboost.kernels.ops import shap as ops
from arboost.runtime.context import Context
from arboost.runtime.device import device_of
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.tree.model import Tree

if TYPE_CHECKING:
    from arboost.predict.device_shap import DeviceExplainer

_SMALL_WORK = 200_000  # nodes times points below which a second thread is not worth waking
_DEVICE_WORK = 100_000_000  # rows times nodes times points that are worth sending to a device
_LEAST_SHARE = 1e-200  # of the cover: a row's side is told by the sign of a share, so none may be 0

Chunks = Iterable[tuple[int, np.ndarray]]
AddTerms = Callable[[Context, np.ndarray, slice, np.ndarray], None]


def contributions(
    ctx: Context, explainer: "Explainer", trees: slice, chunks: Chunks, start: np.ndarray, approximate: bool
) -> np.ndarray:
    """(n, K, F + 1) float32: what every feature adds to the margins, and the bias.

    `start` (n, K) are the rows' margins before any tree: they belong to the bias, as does the trees' mean.
    """
    n_rows, n_targets = start.shape
    _check_room(n_rows * n_targets * (explainer.n_features + 1), "pred_contribs", explainer.n_features)
    out = np.zeros((n_rows, n_targets, explainer.n_features + 1), np.float32)
    for first, values in chunks:
        explainer.explain(ctx, values, trees, out[first : first + len(values)], approximate)
    out[:, :, -1] = start + explainer.mean(trees, n_targets)
    return out


def interactions(
    ctx: Context, explainer: "Explainer", trees: slice, chunks: Chunks, start: np.ndarray, approximate: bool
) -> np.ndarray:
    """(n, K, F + 1, F + 1) float32: what every pair of features adds to the margins; the bias is the last entry.

    The matrices are symmetric and their rows sum to the contributions. Approximate contributions have no part that
    belongs to a pair: they stand on the diagonal.
    """
    n_rows, n_targets = start.shape
    width = explainer.n_features + 1
    _check_room(n_rows * n_targets * width**2, "pred_interactions", explainer.n_features)
    if approximate:
        out = np.zeros((n_rows, n_targets, width, width), np.float32)
        out[:, :, range(width), range(width)] = contributions(ctx, explainer, trees, chunks, start, approximate)
        return out
    out = np.zeros((n_rows, n_targets, width * width), np.float32)
    for first, values in chunks:
        explainer.explain_pairs(ctx, values, trees, out[first : first + len(values)])
    out[:, :, -1] = start + explainer.mean(trees, n_targets)
    return out.reshape(n_rows, n_targets, width, width)


def share(values: np.ndarray, shares: np.ndarray, pairs: bool) -> np.ndarray:
    """Contributions (n, K, F + 1) or (n, K, F + 1, F + 1) for those who have shares (F + 1, G + 1) in the features."""
    shared = values.astype(np.float64) @ shares
    return ((shared.swapaxes(-1, -2) @ shares) if pairs else shared).astype(np.float32)


def _check_room(n_values: int, what: str, n_features: int) -> None:
    check_room(4 * n_values, f"{what} of {n_features} features", "Explain fewer rows at a time.")


_SHAP_OUTPUTS = {  # objective -> what the shap library calls the loss and the margin
    "reg:squarederror": ("squared_error", "raw_value"),
    "reg:logistic": ("binary_crossentropy", "log_odds"),
    "binary:logistic": ("binary_crossentropy", "log_odds"),
}


def to_shap(trees: list[Tree], targets: list[int], base_margin: np.ndarray, objective: str) -> dict[str, Any]:
    """The model as the dictionary that `shap.TreeExplainer` takes; base_margin (K,)."""
    if any(tree.is_linear for tree in trees):
        raise XGBoostError("The shap library has no linear leaves (linear_leaves): use predict(pred_contribs=True).")
    if any(len(tree.categories_nodes) for tree in trees):
        raise XGBoostError(
            "The shap library has no categorical splits in models of its own form. Use predict(pred_contribs=True), or "
            "give it an XGBoost model: shap.TreeExplainer(xgboost.Booster(model_file=booster.save_raw()))."
        )
    loss, output = _SHAP_OUTPUTS.get(objective, (None, None))
    return {
        "trees": [_to_shap_tree(tree, target, len(base_margin)) for tree, target in zip(trees, targets, strict=True)],
        "base_offset": base_margin.astype(np.float64) if len(base_margin) > 1 else float(base_margin[0]),
        "objective": loss,
        "tree_output": output,
        "input_dtype": np.float32,
        "internal_dtype": np.float64,
    }


def _to_shap_tree(tree: Tree, target: int, n_targets: int) -> dict[str, np.ndarray]:
    inner = tree.left >= 0
    values = np.zeros((tree.n_nodes, n_targets))
    if tree.has_vectors:
        values[:] = tree.vectors
    else:
        values[~inner, target] = tree.threshold[~inner]
    below = np.nextafter(tree.threshold, np.float32(-np.inf))  # there, x <= threshold goes left
    return {
        "children_left": tree.left,
        "children_right": tree.right,
        "children_default": np.where(tree.default_left != 0, tree.left, tree.right),
        "features": np.where(inner, tree.feature, -1),
        "thresholds": np.where(inner, below, 0).astype(np.float64),
        "values": values,
        "node_sample_weight": tree.cover.astype(np.float64),
    }


def pack_bitsets(trees: list[Tree]) -> tuple[np.ndarray, np.ndarray]:
    """(place of every node's bitset, 0 if it has none; all bitsets), as `ops.predict` reads them."""
    place = np.zeros(sum(tree.n_nodes for tree in trees), np.int32)
    parts: list[np.ndarray] = [np.zeros(2, np.uint64)]  # the empty one, and a word to look at in vain
    first_node, size = 0, 2
    for tree in trees:
        for node, members in tree.sets.items():
            codes = members.astype(np.uint64)
            n_words = int(codes.max(initial=0)) // 64 + 1
            bits = np.zeros(1 + n_words, np.uint64)
            bits[0] = n_words
            np.bitwise_or.at(bits, 1 + (codes >> np.uint64(6)), np.uint64(1) << (codes & np.uint64(63)))
            place[first_node + node] = size
            parts.append(bits)
            size += len(bits)
        first_node += tree.n_nodes
    return place, np.concatenate(parts)


def _joined(trees: list[Tree], name: str, dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *(getattr(tree, name) for tree in trees)]).astype(dtype)


class _Nodes:
    """All nodes of all trees in a row, and what their covers and paths say about them."""

    def __init__(self, trees: list[Tree]):
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        self.root = np.cumsum(sizes) - sizes
        self.tree = np.repeat(np.arange(len(trees)), sizes)
        first = np.repeat(self.root, sizes)
        left, right = _joined(trees, "left", np.int64), _joined(trees, "right", np.int64)
        self.inner = left >= 0
        self.left, self.right = np.where(self.inner, left + first, -1), np.where(self.inner, right + first, -1)
        self.feature = np.where(self.inner, _joined(trees, "feature", np.int64), -1)
        self.threshold = _joined(trees, "threshold", np.float64)
        self.default_left = _joined(trees, "default_left", np.int32)
        self.share = self._shares(_joined(trees, "cover", np.float64))
        n = len(left)
        self.level = np.zeros(n, np.int64)
        self.seen = np.full(n, -1, np.int64)  # level of the nearest node above with the same feature
        self.seen_side = np.zeros(n, np.int64)
        self.seen_share = np.ones(n)  # product of that feature's shares on the way down
        self.n_unique = np.zeros(n, np.int64)  # features on the path, its own included
        self.paths: list[tuple[np.ndarray, np.ndarray]] = []  # (nodes of a level, their ancestors from the root)
        self._follow_paths()
        self.mean = self.threshold.copy()
        for nodes, _ in reversed(self.paths):
            share = self.share[nodes]
            below = self.mean[self.left[nodes]], self.mean[self.right[nodes]]
            self.mean[nodes] = share[:, 0] * below[0] + share[:, 1] * below[1]

    def _shares(self, cover: np.ndarray) -> np.ndarray:
        """(n, 2): what part of a node's cover its children have; half where nothing is known."""
        share = np.zeros((len(cover), 2))
        inner = self.inner
        left, right = np.maximum(cover[self.left[inner]], 0.0), np.maximum(cover[self.right[inner]], 0.0)
        total = left + right
        known = total > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            for side, part in enumerate((left, right)):
                share[inner, side] = np.maximum(np.where(known, part / total, 0.5), _LEAST_SHARE)
        return share

    def _follow_paths(self) -> None:
        """Level by level, all trees at once."""
        nodes = self.root[self.inner[self.root]]
        above, side = np.zeros((2, len(nodes), 0), np.int64)
        while len(nodes):
            self.paths.append((nodes, above))
            level = above.shape[1]
            self.level[nodes] = level
            same = self.feature[above] == self.feature[nodes, None]
            again = np.flatnonzero(same.any(axis=1))
            last = level - 1 - np.argmax(same[again, ::-1], axis=1) if len(again) else again
            ancestor, ancestor_side = above[again, last], side[again, last]
            self.seen[nodes[again]], self.seen_side[nodes[again]] = last, ancestor_side
            self.seen_share[nodes[again]] = self.seen_share[ancestor] * self.share[ancestor, ancestor_side]
            self.n_unique[nodes] += 1
            self.n_unique[nodes[again]] -= 1
            above = np.column_stack([above, nodes])
            children = np.concatenate([self.left[nodes], self.right[nodes]])
            self.n_unique[children] = np.tile(self.n_unique[nodes], 2)
            side = np.concatenate([np.insert(side, level, s, axis=1) for s in (0, 1)])
            go_on = self.inner[children]
            above, side, nodes = np.tile(above, (2, 1))[go_on], side[go_on], children[go_on]

    def deepest(self, values: np.ndarray) -> np.ndarray:
        """The largest value of each tree's inner nodes, 0 if it has none."""
        result = np.zeros(len(self.root), np.int64)
        np.maximum.at(result, self.tree[self.inner], values[self.inner])
        return result


class Explainer:
    """Trees packed for explanations; `targets[t]` is the margin column that tree t adds to."""

    def __init__(self, trees: list[Tree], targets: list[int], n_features: int):
        self.n_features = n_features
        self.trees = np.zeros(len(trees), ops.SHAP_TREE)
        at = self._at = _Nodes(trees)
        inner = self._inner = np.flatnonzero(at.inner)
        link = np.where(at.inner, np.cumsum(at.inner) - 1, -1)  # number among the inner nodes
        self.trees["root"], self.trees["depth"] = link[at.root], at.deepest(at.level)
        self.trees["n_points"] = np.maximum(1, (at.deepest(at.n_unique) + 1) // 2)
        self.trees["target"], self.trees["mean"] = targets, at.mean[at.root]
        self._work = np.bincount(at.tree[inner], minlength=len(trees)) * self.trees["n_points"]
        used, slots = np.unique(at.feature[inner], return_inverse=True)
        self._used = used.astype(np.int32)
        category, self._bits = pack_bitsets(trees)
        n_points = self.trees["n_points"][at.tree[inner]].astype(np.int64)
        nodes = self._nodes = np.zeros(len(inner), ops.SHAP_NODE)
        nodes["threshold"], nodes["default_left"] = at.threshold[inner], at.default_left[inner]
        nodes["z_left"], nodes["z_right"] = at.share[inner].T
        nodes["mean_left"], nodes["mean_right"] = at.mean[at.left[inner]], at.mean[at.right[inner]]
        nodes["category"], nodes["slot"] = category[inner], slots
        nodes["point"] = 2 * (np.cumsum(n_points) - n_points)
        nodes["pair"] = np.cumsum(at.level[inner]) - at.level[inner]
        nodes["left"], nodes["right"] = link[at.left[inner]], link[at.right[inner]]
        nodes["seen"], nodes["seen_side"] = at.seen[inner], at.seen_side[inner]
        self._points, self._ratios = _make_points(nodes, n_points, at.seen_share[inner])
        self._pairs: tuple[np.ndarray, np.ndarray] | None = None
        self._device_explainer: DeviceExplainer | None = None
        self.add_terms: AddTerms | None = None  # of a forest with linear leaves

    def mean(self, trees: slice, n_targets: int) -> np.ndarray:
        """(K,) float64: sum of the trees' mean weights over the training cover."""
        chosen = self.trees[self._packed(trees)]
        return np.bincount(chosen["target"], chosen["mean"], n_targets)

    def _packed(self, trees: slice) -> slice:
        """The chosen trees as they are packed here."""
        return trees

    def explain(self, ctx: Context, data: np.ndarray, trees: slice, out: np.ndarray, approximate: bool) -> None:
        """out (n, K, F + 1) float32 = contributions of the chosen trees for the float32 rows of `data`, no bias."""
        chosen, on_device = self._packed(trees), None
        if not approximate:
            on_device = self._on_device(ctx, len(data), chosen, 0)
        if on_device is not None:
            on_device.explain(data, self.trees[chosen], out, ctx.n_threads)
        elif approximate:
            self._run(ctx, ops.approximate_rows, data, chosen, (self._nodes, self._used, self._bits), out)
        else:
            no_pairs = np.zeros(0, np.int32), np.zeros((0, 2), np.int32)
            args = (self._nodes, self._points, self._used, self._bits, self._ratios, *no_pairs)
            self._run(ctx, ops.explain_rows, data, chosen, args, out)
        if self.add_terms is not None:
            self.add_terms(ctx, data, trees, out)

    def explain_pairs(self, ctx: Context, data: np.ndarray, trees: slice, out: np.ndarray) -> None:
        """out (n, K, (F + 1)**2) float32 = interactions of the chosen trees for the float32 rows of `data`, no bias."""
        if self._pairs is None:
            self._pairs = self._find_pairs()
        if not len(self._pairs[1]):  # no tree has two features: all on the diagonal
            alone = np.zeros((*out.shape[:2], self.n_features + 1), np.float32)
            self.explain(ctx, data, trees, alone, False)
            out[:, :, :: self.n_features + 2] = alone
            return
        chosen = self._packed(trees)
        on_device = self._on_device(ctx, len(data), chosen, len(self._pairs[1]))
        if on_device is not None:
            on_device.explain_pairs(data, self.trees[chosen], self._ratios, self._pairs, out, ctx.n_threads)
        else:
            args = (self._nodes, self._points, self._used, self._bits, self._ratios, *self._pairs)
            self._run(ctx, ops.explain_rows, data, chosen, args, out)
        if self.add_terms is not None:  # a term is its feature's alone: it stands on the diagonal
            alone = np.zeros((*out.shape[:2], self.n_features + 1), np.float32)
            self.add_terms(ctx, data, trees, alone)
            out[:, :, :: self.n_features + 2] += alone

    def _run(
        self, ctx: Context, kernel: Callable, data: np.ndarray, trees: slice, args: tuple, out: np.ndarray
    ) -> None:
        work = int(self._work[trees].sum())
        if work:
            ctx.run_ranges(len(data), 1 + _SMALL_WORK // work, kernel, data, self.trees[trees], *args, out)

    def _on_device(self, ctx: Context, n_rows: int, trees: slice, n_pairs: int) -> "DeviceExplainer | None":
        """The explainer on the context's device, where there is one, with room, and enough to do for it."""
        owner = device_of(ctx)
        if owner is None or not n_rows * int(self._work[trees].sum()) > _DEVICE_WORK:
            return None
        if self._device_explainer is None or self._device_explainer.device is not owner:
            from arboost.predict.device_shap import DeviceExplainer

            self._device_explainer = DeviceExplainer(owner, self._nodes, self._points, self._used, self._bits)
        return self._device_explainer if self._device_explainer.has_room(self.trees[trees], n_pairs) else None

    def _find_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(pair of every node and level above, -1 if both have the same feature; the slots of every pair)."""
        slot = np.zeros(len(self._at.inner), np.int64)
        slot[self._inner] = self._nodes["slot"]
        start = np.zeros(len(slot), np.int64)
        start[self._inner] = self._nodes["pair"]
        keys = np.full(int(self._at.level[self._inner].sum()), -1, np.int64)
        n_used = len(self._used)
        for nodes, above in self._at.paths:
            a, b = slot[above], slot[nodes, None]
            key = np.where(a == b, -1, np.minimum(a, b) * n_used + np.maximum(a, b))
            keys[start[nodes, None] + np.arange(above.shape[1])] = key
        found, pairs = np.unique(keys, return_inverse=True)
        n_same = int(found[:1].sum() < 0)  # the first key may be -1
        found = found[n_same:]
        return (pairs - n_same).astype(np.int32), np.column_stack(np.divmod(found, n_used)).astype(np.int32)


def _make_points(nodes: np.ndarray, n_points: np.ndarray, seen_share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every node its values of t and the weights; and the derivative of a share over the share (see `_set_ratio`).

    Below a node of the same feature whose side has the share z, t becomes t / c and a weight w z / c**2, with
    c = z + (1 - z) t: the share of a side given the side taken above, and its derivative.
    """
    points = np.zeros(2 * int(n_points.sum()))
    ratios = np.zeros(2 * len(points))
    for n in np.unique(n_points):
        chosen = nodes[n_points == n]
        roots, weights = np.polynomial.legendre.leggauss(int(n))  # on [-1, 1]
        t, z = (roots + 1) / 2, seen_share[n_points == n, None]
        c = z + (1 - z) * t
        scaled, slope = t / c, z / c**2
        place = chosen["point"][:, None] + np.arange(n)
        points[place], points[place + n] = scaled, slope * (weights / 2)
        left, right = chosen["z_left"][:, None], chosen["z_right"][:, None]
        place = place + chosen["point"][:, None]
        # the row takes this side: its share is z + (1 - z) t; the other side: the row's k makes it z - z t
        ratios[place] = right * slope / (left + right * scaled)
        ratios[place + n] = ratios[place + 2 * n] = -1 / (c * (1 - t))
        ratios[place + 3 * n] = left * slope / (right + left * scaled)
    return points, ratios
