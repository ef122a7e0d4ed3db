"""One training, recorded round by round from the engine itself.

The engine trains; what is recorded is its gradients, trees, leaves, margins and predictions. Candidate splits, which
it scores and forgets, are scored again by its own formulas on its own integers (search.py). `_check` then holds both
against each other: a number that the engine did not use is an error here, never a number on the page.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.config import config_context
from arboost.kernels.scalar import MIN_GAIN
from arboost.levels.quantize import quantize
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import TreeParams
from arboost.trace.parts import Candidate, Node, Round, Run, Tree
from arboost.trace.search import Columns, Sums
from arboost.tree import model

_SHOWN = (
    "reg_lambda", "gamma", "eta", "max_depth", "min_child_weight", "reg_alpha", "max_delta_step", "max_leaves",
    "tree_method", "max_bin",
)  # fmt: skip
_LABEL_LESS_PREDICTION = {"reg:squarederror", "binary:logistic", "reg:logistic", "multi:softprob"}


class TraceMismatch(RuntimeError):
    """What a trace would show is not what the engine did: a fault in arboost, to be reported."""


def _check(agrees: Any, what: str) -> None:
    if not np.all(agrees):
        raise TraceMismatch(f"The trace disagrees with the engine about {what}. Please report this with the data.")


def record_run(data: DMatrix, values: np.ndarray, params: Mapping[str, Any], n_rounds: int) -> tuple[Run, Booster]:
    """Train on `data`, whose values are given too, and record every step."""
    with config_context(**{name: value for name, value in params.items() if name == "verbosity"}):
        booster = Booster(params, [data])
        recorder = _Recorder(booster, data, values)
        rounds = [recorder.record_round(i) for i in range(n_rounds)]
    return recorder.finish(rounds), booster.reset()


def _finite(metrics: Iterable[tuple[str, float]]) -> dict[str, float | None]:
    """Values, None for those that are not numbers."""
    return {name: float(value) if np.isfinite(value) else None for name, value in metrics}


class _Recorder:
    """Follows one booster from round to round."""

    def __init__(self, booster: Booster, data: DMatrix, values: np.ndarray):
        self._booster, self._data, self._values = booster, data, values
        self._learner = booster._learner
        self._columns: Columns | None = None
        self._start: Run | None = None

    @property
    def _params(self) -> TreeParams:
        return self._learner.tree_params

    def record_round(self, index: int) -> Round:
        """Train one round and write down what it did."""
        grown = self._grown_without_gamma() if self._params.gamma > 0 and self._prunes else None
        before = self._learner.training_margins(self._data).copy() if index else None
        self._booster.update(self._data, index)
        if self._columns is None:
            self._columns = Columns(self._values, self._cuts())
        if before is None:
            before = self._learner.start_margin(len(self._values), None)
            self._start = self._started(before)
        whole = self._learner.model.as_trees()
        made = whole.trees_of(index, index + 1)
        trees, targets = whole.trees[made], whole.tree_info[made]
        leaves = self._leaves(self._booster, index)
        full = [(t, leaves[:, k]) for k, t in enumerate(trees)] if grown is None else grown
        g, h = self._learner.last_gradients()
        recorded = [
            self._record_tree(g[target], h[target], target, tree, full[k], leaves[:, k])
            for k, (tree, target) in enumerate(zip(trees, targets, strict=True))
        ]
        margin = self._learner.margins(self._data)
        for tree in recorded:
            value = np.array([n.value if n.value is not None else np.nan for n in tree.nodes], np.float32)
            before[:, tree.target] += value[np.array(tree.leaf_of_row)]
        _check(before == margin, "the margins")
        return Round(index, recorded, margin.tolist(), self._prediction(margin), self._evaluate())

    def finish(self, rounds: list[Round]) -> Run:
        assert self._start is not None
        return replace(self._start, rounds=rounds)

    def _started(self, margin: np.ndarray) -> Run:
        """What is known before the first round."""
        learner = self._learner
        shown = {name: getattr(self._params, name) for name in _SHOWN} | {"objective": learner.loss.name}
        shown |= {"n_outputs": learner.n_outputs, "given_base_score": learner.resolved.learner.base_score is not None}
        shown |= {"own_leaves": learner.loss.leaf_alphas is not None, **self._wording(margin)}
        prediction = learner.loss.eval_transform(margin, learner.ctx)
        found = _finite((m.name, m.evaluate_info(learner.ctx, prediction, self._data.info)) for m in learner.metrics)
        return Run(shown, learner.intercept.tolist(), margin.tolist(), self._prediction(margin), found, [])

    def _wording(self, margin: np.ndarray) -> dict[str, bool]:
        """Whether -g is label less prediction, a sum of hessians counts rows, the start is a mean: names need this."""
        g, h = self._learner.last_gradients()
        label = self._data.get_label().reshape(len(margin), -1)
        if len(g) > 1 and label.shape[1] == 1:
            label = label == np.arange(len(g))  # classes
        prediction = np.array(self._prediction(margin))
        is_plain = self._learner.loss.name in _LABEL_LESS_PREDICTION
        is_plain = is_plain and np.allclose(label - prediction, -g.T, rtol=1e-5, atol=1e-6)  # not where labels weigh
        weight = self._data.get_weight()
        is_of_rows = len(weight) == len(label)  # those of groups belong to no row
        mean = np.average(label, axis=0, weights=weight if is_of_rows else None)
        is_mean = prediction.shape == label.shape and np.allclose(mean, prediction[0], rtol=1e-5, atol=1e-7)
        return {
            "plain_residuals": bool(is_plain), "unit_hessians": bool((h == 1).all()), "starts_at_mean": bool(is_mean),
        }  # fmt: skip

    @property
    def _prunes(self) -> bool:
        """Whether gamma takes splits back instead of keeping them from being made."""
        return self._params.tree_method == "exact"

    def _grown_without_gamma(self) -> list[tuple[model.Tree, np.ndarray]]:
        """The next round's trees as they were before pruning, and the leaf of every row."""
        twin = self._booster.copy()
        n_rounds = twin.num_boosted_rounds()
        twin.set_param({"gamma": 0})
        with config_context(verbosity=0):  # what there is to warn of, the booster itself does
            twin.update(self._data, n_rounds)
        trees = twin._learner.model.trees[twin._learner.model.trees_of(n_rounds, n_rounds + 1)]
        leaves = self._leaves(twin, n_rounds)
        return [(tree, leaves[:, k]) for k, tree in enumerate(trees)]

    def _leaves(self, booster: Booster, index: int) -> np.ndarray:
        """(n_rows, n_trees) int64 of one round."""
        leaves = booster.predict(self._data, pred_leaf=True, iteration_range=(index, index + 1))
        return leaves.reshape(len(self._values), -1).astype(np.int64)

    def _cuts(self) -> list[np.ndarray] | None:
        """Upper bounds of every feature's bins, where there are bins."""
        if self._prunes:
            return None
        offsets, values = self._data.get_quantile_cut()
        return [values[int(a) + 1 : int(b)] for a, b in pairwise(offsets)]

    def _prediction(self, margin: np.ndarray) -> list[list[float]]:
        prediction = self._learner.loss.transform(margin, self._learner.ctx)
        found: list[list[float]] = np.asarray(prediction, np.float32).reshape(len(margin), -1).tolist()
        return found

    def _evaluate(self) -> dict[str, float | None]:
        return _finite(self._learner.evaluate(self._data))

    def _record_tree(
        self,
        g: np.ndarray,
        h: np.ndarray,
        target: int,
        tree: model.Tree,
        full: tuple[model.Tree, np.ndarray],
        leaf_of_row: np.ndarray,
    ) -> Tree:
        sums = Sums.of(quantize(self._learner.ctx, g, h), self._params)
        assert self._columns is not None
        nodes = _NodeReader(tree, *full, sums, self._columns, self._params, self._learner.loss.leaf_alphas is None)
        return Tree(target, g.tolist(), h.tolist(), nodes.read(), leaf_of_row.tolist())


class _NodeReader:
    """The nodes of one tree: `full` before pruning, `tree` after; both number them alike."""

    def __init__(
        self,
        tree: model.Tree,
        full: model.Tree,
        leaf_of_row: np.ndarray,
        sums: Sums,
        columns: Columns,
        params: TreeParams,
        is_newton: bool,
    ):
        self._tree, self._full, self._sums, self._columns, self._params = tree, full, sums, columns, params
        self._is_newton = is_newton
        self._rows = self._rows_of_nodes(leaf_of_row)

    def _rows_of_nodes(self, leaf_of_row: np.ndarray) -> list[np.ndarray]:
        """Row numbers of every node, ascending; children come after their parents."""
        rows = [np.flatnonzero(leaf_of_row == i) for i in range(self._full.n_nodes)]
        for i in range(self._full.n_nodes - 1, 0, -1):
            parent = self._full.parent[i]
            rows[parent] = np.union1d(rows[parent], rows[i])
        return rows

    def read(self) -> list[Node]:
        """Every node, checked."""
        full, sums = self._full, self._sums
        g = np.array([sums.g[rows].sum() for rows in self._rows])
        h = np.array([sums.h[rows].sum() for rows in self._rows])
        scores, weights = sums.scores(g, h)
        _check(np.float32(h * sums.units[1]) == full.cover, "the hessian sums of nodes")
        depths = np.zeros(full.n_nodes, np.int64)
        nodes = []
        for i in range(full.n_nodes):
            parent = int(full.parent[i]) if i else -1
            depths[i] = depths[parent] + 1 if i else 0
            candidates = self._candidates(i, int(depths[i]), float(scores[i]))
            split, candidates = self._taken(i, candidates)
            reason = self._reason(i, int(depths[i]), candidates)
            node = Node(
                i, parent, int(full.left[i]), int(full.right[i]), int(depths[i]), self._rows[i].tolist(),
                float(g[i] * sums.units[0]), float(h[i] * sums.units[1]), float(scores[i]), float(weights[i]),
                candidates, split, reason, self._is_protected(i), self._value(i, reason, float(weights[i])),
            )  # fmt: skip
            nodes.append(node)
        return nodes

    def _candidates(self, i: int, depth: int, score: float) -> list[Candidate]:
        """Every split that the engine scored; none where it did not look."""
        if self._params.max_depth and depth >= self._params.max_depth:
            return []
        columns = range(self._columns.n_features)
        return [c for f in columns for c in self._columns.candidates(self._rows[i], self._sums, score, f)]

    def _taken(self, i: int, candidates: list[Candidate]) -> tuple[int, list[Candidate]]:
        """(number of the split that the engine took or -1, candidates with the best marked), checked."""
        full, fair = self._full, [c for c in candidates if c.verdict == "less"]
        if full.left[i] < 0:
            if fair:
                top = max(range(len(candidates)), key=lambda k: (candidates[k] in fair, candidates[k].gain))
                candidates[top] = replace(candidates[top], verdict="best")
            return -1, candidates
        wanted = int(full.feature[i]), float(full.threshold[i]), bool(full.default_left[i])
        at = [k for k, c in enumerate(candidates) if (c.feature, c.threshold, c.default_left) == wanted]
        _check(len(at) == 1 and candidates[at[0]] in fair, f"the split of node {i}")
        best = candidates[at[0]]
        _check(np.float32(best.gain) == full.gain[i], f"the gain of node {i}")
        _check(all(c.gain <= best.gain for c in fair), f"the best split of node {i}")
        children = int(full.left[i]), int(full.right[i])
        counts = tuple(len(self._rows[child]) for child in children)
        _check(counts == (best.n_left, best.n_right), f"the rows of node {i}'s children")
        candidates[at[0]] = replace(best, verdict="best")
        return at[0], candidates

    def _reason(self, i: int, depth: int, candidates: list[Candidate]) -> str:
        """What became of a node (parts.REASONS)."""
        p, tree, full = self._params, self._tree, self._full
        if tree.feature[i] == model.DELETED:
            return "gone"
        if full.left[i] >= 0:
            if tree.left[i] >= 0:
                same = (tree.feature[i], tree.threshold[i]) == (full.feature[i], full.threshold[i])
                _check(same, f"what pruning left of node {i}")
                return "split"
            _check(full.gain[i] < p.gamma, f"why node {i} was pruned")
            return "pruned"
        if p.max_depth and depth >= p.max_depth:
            return "max_depth"
        if not candidates:
            return "alone"
        fair = [c.gain for c in candidates if c.verdict != "light"]
        if max(fair, default=0.0) <= MIN_GAIN:
            return "light" if any(c.gain > MIN_GAIN for c in candidates) or not fair else "no gain"
        if max(fair) < p.gamma and p.tree_method != "exact":
            return "gamma"
        n_leaves = int(np.count_nonzero(full.left < 0))
        _check(p.max_leaves and n_leaves >= p.max_leaves, f"why node {i} was not split")
        return "max_leaves"

    def _is_protected(self, i: int) -> bool:
        return bool(self._tree.left[i] >= 0 and self._full.gain[i] < self._params.gamma)

    def _value(self, i: int, reason: str, weight: float) -> float | None:
        """What the finished tree's leaf adds; None for other nodes."""
        tree = self._tree
        if tree.left[i] >= 0 or reason == "gone":
            return None
        value = float(tree.threshold[i])
        if self._is_newton:
            _check(np.isclose(value, weight * self._params.eta, rtol=1e-6, atol=1e-30), f"the value of leaf {i}")
        return value
