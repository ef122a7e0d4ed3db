"""Draws of whole trainings: an objective, data that suits it, and any parameters together.

A draw is made from one integer, so that a failure can be had again; `combination_checks.py` says what must hold of it.
Most draws are small: faults of combinations do not need many rows, and small data is where sizes are odd.
"""

import tempfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

import arboost
from page_sources import Parts

KINDS = ("dense", "missing", "integers", "csr", "one-hot", "one-hot csr", "categories", "mixed", "odd", "wide csr")
TREE_OBJECTIVES = (
    "reg:squarederror", "reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror",
    "reg:absoluteerror", "reg:quantileerror", "reg:expectileerror", "binary:logistic", "binary:logistic",
    "binary:logitraw", "binary:hinge", "count:poisson", "reg:gamma", "reg:tweedie", "multi:softmax", "multi:softprob",
    "rank:ndcg", "rank:pairwise", "rank:map", "survival:cox", "survival:aft", "several targets", "several labels",
)  # fmt: skip
_NO_SUM = ("reg:absoluteerror", "reg:quantileerror")  # whose leaves are solved
_CUSTOM = ("reg:squarederror", "binary:logistic", "multi:softprob", "multi:softmax")
OURS_ALONE = frozenset(
    {"sketch_eps", "sketch_proposal", "enable_bundle", "expectile_alpha", "top_rate", "other_rate", "min_data_in_leaf",
     "extra_trees", "path_smooth", "linear_leaves", "linear_lambda", "split_outputs", "cat_strategy",
     "permutation_count", "max_cat_combination", "boosting_type"}
)  # fmt: skip
CHOICES = ("min_data_in_leaf", "extra_trees", "path_smooth")  # which are there for bins alone


@dataclass
class Draw:
    """One training: parameters, the arguments of the matrix, and how rounds are trained."""

    seed: int
    kind: str
    params: dict[str, Any]
    X: Any
    meta: dict[str, Any]  # label, weight, base_margin, group, bounds, feature_types, feature_weights
    held_out: np.ndarray  # rows that a second matrix has
    n_rounds: int
    n_more_rounds: int = 0  # trained on the saved and reloaded model,
    more_params: dict[str, Any] = field(default_factory=dict)  # with these instead
    process_type: str = "default"  # "update": the first round is refreshed afterwards
    is_quantile: bool = False
    is_paged: bool = False  # a quantile matrix of ours lies on disk
    is_custom: bool = False  # gradients come from a function of the user's
    notes: set[str] = field(default_factory=set)  # what besides parameters is special about it, in words of messages

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def __str__(self) -> str:
        matrix = "ExtMemQuantileDMatrix" if self.is_paged else "QuantileDMatrix" if self.is_quantile else "DMatrix"
        rounds = f"{self.n_rounds}+{self.n_more_rounds} rounds" + (" of a custom objective" if self.is_custom else "")
        return (
            f"draw {self.seed}: {self.kind} {matrix} {self.X.shape[0]}x{self.X.shape[1]}, {rounds}, "
            f"{sorted(self.meta)}\n    {self.params}\n    {self.process_type} {self.more_params or ''}"
        )

    @property
    def custom_objective(self) -> Any:
        """The function that gives a custom objective's gradients, or None."""
        if not self.is_custom:
            return None
        return {"reg:squarederror": _squared, "binary:logistic": _logistic}.get(self.params["objective"], _softmax)

    def make_matrix(self, library: Any, rows: np.ndarray | None = None, plain: bool = False) -> Any:
        """The data, or some of its rows (which have no groups), as a matrix of arboost or XGBoost."""
        X, meta = self.X, dict(self.meta)
        if rows is not None:
            X = X[rows]
            by_row = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")
            meta = {name: value[rows] if name in by_row else value for name, value in meta.items()}
        if self.is_paged and not plain and rows is None and library is arboost:
            return self._make_pages()
        if self.is_quantile and not plain:
            return library.QuantileDMatrix(X, max_bin=self.params.get("max_bin", 256), nthread=1, **meta)
        return library.DMatrix(X, nthread=1, **meta)

    def _make_pages(self) -> Any:
        """The data on pages of a disk, from batches that do not end where pages do."""
        edges = np.unique(np.linspace(0, self.n_rows, 4, dtype=int))
        parts = Parts(
            self.X,
            self.meta,
            edges.tolist(),
            cache_prefix=tempfile.gettempdir(),
            min_cache_page_bytes=100 * self.X.shape[1],
        )
        return arboost.ExtMemQuantileDMatrix(parts, max_bin=self.params.get("max_bin", 256), nthread=1)

    def make_reference(self, library: Any, data: Any) -> Any:
        """The held-out rows as they are evaluated in training: with the bins of the training data where it has bins."""
        if not self.is_quantile:
            return self.make_matrix(library, self.held_out)
        meta = dict(self.meta)
        by_row = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")
        meta = {name: value[self.held_out] if name in by_row else value for name, value in meta.items()}
        return library.QuantileDMatrix(
            self.X[self.held_out], ref=data, max_bin=self.params.get("max_bin", 256), nthread=1, **meta
        )


def _squared(margin: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    return _weighed(margin - data.get_label().reshape(margin.shape), np.ones_like(margin), data)


def _logistic(margin: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    p = 1 / (1 + np.exp(-margin))
    return _weighed(p - data.get_label().reshape(margin.shape), np.maximum(p * (1 - p), 1e-16), data)


def _softmax(margin: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    p = np.exp(margin - margin.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return _weighed(p - np.eye(margin.shape[1])[data.get_label().astype(int)], np.maximum(2 * p * (1 - p), 1e-16), data)


def _weighed(g: np.ndarray, h: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    weight = data.get_weight()
    if len(weight):
        weight = weight.reshape(-1, *([1] * (g.ndim - 1)))
        g, h = g * weight, h * weight
    return g, h


class _Drawer:
    """Random choices from one seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def maybe(self, share: float, name: str, *choices: Any) -> dict[str, Any]:
        return {name: self.one_of(*choices)} if self.chance(share) else {}


def draw(seed: int, largest: int = 20_000) -> Draw:
    """The draw of this seed."""
    d = _Drawer(seed)
    low, high = d.one_of(
        (3, 12), (12, 80), (12, 80), (80, 600), (80, 600), (600, 3000), (80, 600), (600, 3000), (3000, 20_000)
    )
    n_rows = min(largest, int(d.rng.integers(low, high + 1)))
    kind = d.one_of(*KINDS)
    X, meta = _features(d, kind, n_rows)
    booster = d.one_of("gbtree", "gbtree", "gbtree", "gbtree", "gbtree", "gbtree", "dart", "dart", "gblinear")
    objective = d.one_of(*TREE_OBJECTIVES)
    params: dict[str, Any] = {"booster": booster, "seed": int(d.rng.integers(1000))}
    notes: set[str] = set()
    params |= _objective(d, objective, X, meta, notes)
    _extra_meta(d, params, X, meta)
    params |= _growth(d, X.shape[1], meta) if booster != "gblinear" else _linear(d)
    if booster == "dart":
        params |= _dropout(d)
    params |= _metrics(d, params, meta)
    is_quantile = d.chance(0.3)
    if d.chance(0.8):
        _avoid_refusals(params, is_quantile, "c" in meta.get("feature_types", ()))
    n_held_out = 0 if "group" in meta or n_rows < 6 else n_rows // 3
    drawn = Draw(
        seed, kind, params, X, meta,
        held_out=np.sort(d.rng.choice(n_rows, n_held_out, replace=False)),
        n_rounds=int(d.rng.integers(1, 6)),
        n_more_rounds=int(d.rng.integers(1, 4)) if d.chance(0.2) else 0,
        process_type="update" if booster != "gblinear" and d.chance(0.05) else "default",
        is_quantile=is_quantile,
        is_paged=is_quantile and "group" not in meta and d.chance(0.4),
        notes=notes | ({"categor"} if kind in ("categories", "mixed") else set()),
    )  # fmt: skip
    drawn.is_custom = params["objective"] in _CUSTOM and d.chance(0.15)
    if drawn.n_more_rounds and booster == "gbtree" and d.chance(0.5):
        drawn.more_params = _other_growth(d, drawn)
    if booster == "gbtree" and d.chance(0.12):
        _make_linear(d, drawn)
    return drawn


def _make_linear(d: _Drawer, drawn: Draw) -> None:
    """Linear leaves, mostly without what they do not go with."""
    chosen = {"linear_leaves": True} | d.maybe(0.5, "linear_lambda", 0.0, 1.0, 1000.0)
    for params in (drawn.params, drawn.more_params) if drawn.more_params else (drawn.params,):
        params |= chosen
        if d.chance(0.8):
            params.pop("monotone_constraints", None)
            params.pop("multi_strategy", None)
            drawn.is_quantile, drawn.is_paged, drawn.process_type = False, False, "default"


def _other_growth(d: _Drawer, drawn: Draw) -> dict[str, Any]:
    """Other parameters of growth for the rounds that come later."""
    other = _growth(d, drawn.X.shape[1], drawn.meta)
    other.pop("num_parallel_tree", None)
    fixed = ("num_parallel_tree", *(("max_bin",) if drawn.is_quantile else ()))
    other |= {name: drawn.params[name] for name in fixed if name in drawn.params}
    kept = {name: value for name, value in drawn.params.items() if name in _objective_names}
    other = {**kept, **other, "booster": "gbtree", "seed": drawn.params["seed"]}
    _avoid_refusals(other, drawn.is_quantile, "c" in drawn.meta.get("feature_types", ()))
    if "multi_strategy" in drawn.params:
        other["multi_strategy"] = drawn.params["multi_strategy"]
    return other


def redraw_growth(base: Draw, seed: int) -> Draw:
    """The same data and objective with other parameters of growth: for trainings on one shared matrix."""
    d = _Drawer(seed)
    kept = {name: base.params[name] for name in base.params if name in _objective_names}
    booster = d.one_of("gbtree", "gbtree", "gbtree", "dart", "gblinear")
    growth = _growth(d, base.X.shape[1], base.meta) if booster != "gblinear" else _linear(d)
    if base.is_quantile:
        growth["max_bin"] = base.params.get("max_bin", 256)
    params = {**kept, "booster": booster, "seed": int(d.rng.integers(1000)), **growth}
    return Draw(
        seed, base.kind, params, base.X, base.meta, base.held_out, n_rounds=int(d.rng.integers(2, 6)),
        is_quantile=base.is_quantile, is_paged=base.is_paged, notes=base.notes,
    )  # fmt: skip


_objective_names = frozenset(
    {"objective", "num_class", "quantile_alpha", "expectile_alpha", "multi_strategy", "base_score", "scale_pos_weight",
     "tweedie_variance_power", "aft_loss_distribution", "aft_loss_distribution_scale", "huber_slope",
     "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_unbiased", "lambdarank_normalization"}
)  # fmt: skip


def _features(d: _Drawer, kind: str, n_rows: int) -> tuple[Any, dict[str, Any]]:
    """A table of the kind, and the types of its features where they matter."""
    rng, n_features = d.rng, d.one_of(1, 2, 3, 5, 8, 13)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    if kind == "missing":
        X[rng.random(X.shape) < d.one_of(0.05, 0.3, 0.9)] = np.nan
    elif kind == "integers":
        X = rng.integers(-5, d.one_of(2, 20, 3000), X.shape).astype(d.one_of(np.int32, np.float64, np.uint8))
    elif kind == "csr":
        X[rng.random(X.shape) < d.one_of(0.3, 0.9)] = 0
        X = sp.csr_matrix(X)
    elif kind.startswith("one-hot"):
        blocks = [np.eye(d.one_of(2, 3, 9), dtype=np.float32) for _ in range(d.one_of(1, 2, 4))]
        X = np.hstack([block[rng.integers(0, len(block), n_rows)] for block in blocks])
        X = sp.csr_matrix(X) if kind.endswith("csr") else X
    elif kind in ("categories", "mixed"):
        return _with_categories(d, kind, X)
    elif kind == "odd":
        _make_odd(d, X)
    elif kind == "wide csr":
        X = sp.random(n_rows, d.one_of(40, 300), d.one_of(0.002, 0.02), format="csr", rng=rng, dtype=np.float32)
        X.data[: len(X.data) // 3] = d.one_of(0.0, 1.0)  # zeros that are stored, or many equal values
    if d.chance(0.1) and not sp.issparse(X):
        X[:, 0] = 1  # a feature that says nothing
    return X, {}


def _make_odd(d: _Drawer, X: np.ndarray) -> None:
    """Values at the ends of float32, zeros of both signs, features that are empty, constant or all but unique."""
    for f in range(X.shape[1]):
        what = d.one_of("huge", "tiny", "zeros", "empty", "constant", "near", "rare")
        if what == "huge":
            X[:, f] *= np.float32(1e37)
        elif what == "tiny":
            X[:, f] *= np.float32(1e-40)
        elif what == "zeros":
            X[:, f] = np.where(X[:, f] > 0.5, 1.0, np.where(X[:, f] > 0, 0.0, -0.0))
        elif what == "empty":
            X[:, f] = np.nan
        elif what == "constant":
            X[:, f] = -3
        elif what == "near":
            X[:, f] = np.nextafter(np.float32(1), np.float32(2)) + np.round(X[:, f]) * np.float32(1.2e-7)
        else:
            X[:, f] = np.where(np.arange(len(X)) == len(X) // 2, 1.0, np.nan)


def _with_categories(d: _Drawer, kind: str, X: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    n_features = X.shape[1]
    types = ["c" if kind == "categories" or d.chance(0.5) else "float" for _ in range(n_features)]
    for f in [f for f in range(n_features) if types[f] == "c"]:
        X[:, f] = d.rng.integers(0, d.one_of(1, 2, 4, 15, 70, 300), len(X)) * d.one_of(1, 1, 3)
    if d.chance(0.4):
        X[d.rng.random(X.shape) < d.one_of(0.1, 0.1, 0.95)] = np.nan
    return X, {"feature_types": types}


def _score(d: _Drawer, X: Any) -> np.ndarray:
    """What labels are made of: some features, one interaction and noise, with mean 0 and scale 1."""
    dense = np.nan_to_num(np.asarray(X.toarray() if sp.issparse(X) else X, np.float64))
    dense = dense / np.maximum(dense.std(axis=0), 1e-45)
    score = dense @ d.rng.normal(size=dense.shape[1]) + dense[:, 0] * dense[:, -1] + d.rng.normal(size=len(dense))
    return ((score - score.mean()) / max(score.std(), 1e-9)).astype(np.float64)


def _objective(d: _Drawer, name: str, X: Any, meta: dict[str, Any], notes: set[str]) -> dict[str, Any]:
    """Labels for an objective (into meta), and the parameters it needs."""
    score, rng, n = _score(d, X), d.rng, X.shape[0]
    params: dict[str, Any] = {"objective": name}
    if name.startswith("several"):
        n_targets = d.one_of(2, 3)
        labels = np.stack([score + rng.normal(size=n) * 0.5 for _ in range(n_targets)], axis=1)
        labels = labels if name == "several targets" else (labels > 0).astype(np.float64)
        objective = d.one_of("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror")
        params = {"objective": objective if name == "several targets" else "binary:logistic"}
        params |= d.maybe(0.4, "multi_strategy", "multi_output_tree")
        if d.chance(0.2) and n > 10:
            labels[rng.random(labels.shape) < 0.2] = np.nan
        meta["label"] = labels
        notes |= {"target", "label"}
        return params
    if name in ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"):
        meta["label"] = score * d.one_of(1, 1, 1, 1, 100, 1e5, 1e-4, 1e-30, 1e15, 0) + d.one_of(0, 0, 0, 1000)
        params |= d.maybe(0.3, "huber_slope", 0.5, 2.0) if name == "reg:pseudohubererror" else {}
    elif name in ("reg:quantileerror", "reg:expectileerror"):
        meta["label"] = score
        alphas = d.one_of(0.5, 0.2, [0.1, 0.9], [0.25, 0.5, 0.75])
        params["quantile_alpha" if "quantile" in name else "expectile_alpha"] = alphas
    elif name in ("reg:logistic", "reg:squaredlogerror", "reg:gamma"):
        meta["label"] = 1 / (1 + np.exp(-score)) if name == "reg:logistic" else np.exp(score / 2)
    elif name in ("count:poisson", "reg:tweedie"):
        meta["label"] = rng.poisson(np.exp(score / 2)).astype(np.float64)
        params |= d.maybe(0.3, "tweedie_variance_power", 1.2, 1.8) if name == "reg:tweedie" else {}
    elif name.startswith("binary:"):
        meta["label"] = (score > d.one_of(0.0, 1.0)).astype(np.float64)
        params |= d.maybe(0.2, "scale_pos_weight", 0.3, 5.0)
    elif name.startswith("multi:"):
        params["num_class"] = d.one_of(2, 3, 5)
        meta["label"] = np.digitize(score, np.linspace(-1, 1, params["num_class"] - 1)).astype(np.float64)
        params |= d.maybe(0.3, "multi_strategy", "multi_output_tree")
    elif name.startswith("rank:"):
        meta["label"] = np.digitize(score, [0.0] if name == "rank:map" else [-0.5, 0.5, 1.5]).astype(np.float64)
        sizes, left = [], n
        while left:
            sizes.append(min(left, d.one_of(1, 3, 10, 40)))
            left -= sizes[-1]
        meta["group"] = sizes
        params |= d.maybe(0.3, "lambdarank_pair_method", "mean", "topk")
        params |= d.maybe(0.3, "lambdarank_num_pair_per_sample", 1, 4)
        params |= d.maybe(0.15, "lambdarank_unbiased", True) | d.maybe(0.2, "lambdarank_normalization", False)
    elif name == "survival:cox":
        meta["label"] = np.exp(score / 2) * np.where(rng.random(n) < 0.3, -1, 1)
    else:
        times = np.exp(score / 2)
        meta["label_lower_bound"], meta["label_upper_bound"] = times, np.where(rng.random(n) < 0.3, np.inf, times)
        params |= d.maybe(0.5, "aft_loss_distribution", "normal", "logistic", "extreme")
        params |= d.maybe(0.3, "aft_loss_distribution_scale", 0.5, 2.0)
    return params


def _extra_meta(d: _Drawer, params: dict[str, Any], X: Any, meta: dict[str, Any]) -> None:
    """Weights, base margins, weights of features."""
    n = X.shape[0]
    if d.chance(0.25):
        weight = d.rng.random(len(meta["group"]) if "group" in meta else n)
        meta["weight"] = np.where(weight < d.one_of(0.1, 0.6), d.one_of(0.0, 0.05), weight)
        meta["weight"][0] = 1.0
        meta["weight"] *= d.one_of(1, 1, 1, 1e-5, 1e5)
    if d.chance(0.15):
        n_outputs = max(
            params.get("num_class", 1), np.size(params.get("quantile_alpha", params.get("expectile_alpha", 0)))
        )
        shape = meta["label"].shape if "label" in meta and n_outputs == 1 else (n, n_outputs) if n_outputs > 1 else (n,)
        meta["base_margin"] = d.rng.normal(size=shape) * 0.3
    if d.chance(0.1):
        params["base_score"] = 0.5
    if d.chance(0.1):
        meta["feature_weights"] = d.rng.random(X.shape[1]) + 0.01


def _growth(d: _Drawer, n_features: int, meta: dict[str, Any]) -> dict[str, Any]:
    """Parameters of trees."""
    p: dict[str, Any] = {"max_depth": d.one_of(1, 2, 3, 3, 6, 6, 10, 0, 0, 40)}
    p |= d.maybe(0.85, "tree_method", "hist", "hist", "hist", "exact", "exact", "approx", "approx", "auto")
    if p.get("tree_method") == "approx" and d.chance(0.4):
        p["sketch_proposal"] = d.one_of("local", "local", "global")
        p |= d.maybe(0.5, "sketch_eps", 0.3, 0.03, 0.003)
    p |= d.maybe(0.25, "grow_policy", "lossguide", "depthwise", "symmetric")
    p |= d.maybe(0.7 if p["max_depth"] == 0 else 0.2, "max_leaves", 2, 5, 31)
    p |= d.maybe(0.6, "eta", 0.1, 0.3, 0.5, 1.0)
    for name, share, choices in (
        ("lambda", 0.3, (0.0, 0.1, 10.0)), ("alpha", 0.2, (0.1, 1.0)), ("gamma", 0.2, (0.01, 0.5, 5.0)),
        ("max_delta_step", 0.15, (0.1, 1.0)), ("min_child_weight", 0.3, (0.0, 0.1, 5.0)),
        ("subsample", 0.25, (0.02, 0.3, 0.7, 0.95)), ("colsample_bytree", 0.25, (0.1, 0.5, 0.9)),
        ("colsample_bylevel", 0.15, (0.1, 0.5, 0.9)), ("colsample_bynode", 0.15, (0.1, 0.5, 0.9)),
        ("max_bin", 0.35, (2, 3, 7, 64, 255, 256, 257, 400, 1000)), ("num_parallel_tree", 0.15, (2, 3)),
        ("seed_per_iteration", 0.03, (True,)), ("enable_bundle", 0.1, (False,)),
        ("min_data_in_leaf", 0.07, (2, 5, 40)), ("extra_trees", 0.07, (True,)), ("path_smooth", 0.07, (1.0, 50.0)),
    ):  # fmt: skip
        p |= d.maybe(share, name, *choices)
    if d.chance(0.08):
        p.pop("subsample", None)
        p |= (
            {"sampling_method": "goss"}
            | d.maybe(0.5, "top_rate", 0.0, 0.1, 0.5)
            | d.maybe(0.5, "other_rate", 0.05, 0.5)
        )
    if "subsample" in p:
        p |= d.maybe(0.3, "sampling_method", "gradient_based", "uniform")
    if d.chance(0.15):
        p["monotone_constraints"] = "(" + ",".join(str(d.one_of(-1, 0, 0, 1)) for _ in range(n_features)) + ")"
    if d.chance(0.15):
        sets = [sorted(d.rng.permutation(n_features)[: d.one_of(1, 2, 4)].tolist()) for _ in range(d.one_of(1, 2, 3))]
        p["interaction_constraints"] = str(sets)
    if "c" in meta.get("feature_types", ()):
        p |= d.maybe(0.5, "max_cat_to_onehot", 1, 4, 100) | d.maybe(0.3, "max_cat_threshold", 1, 4, 64)
        p |= d.maybe(0.3, "cat_strategy", "onehot", "partition", "ordered_ts", "ordered_ts")
    p |= d.maybe(0.06, "boosting_type", "ordered")
    if "boosting_type" in p or p.get("cat_strategy") == "ordered_ts":
        p |= d.maybe(0.5, "permutation_count", 1, 2, 4) | d.maybe(0.3, "max_cat_combination", 1, 2)
    return p


_METRICS = {
    "reg:": ("rmse", "mae", "mape", "mphe"),
    "binary:": ("logloss", "error", "error@0.3", "auc", "aucpr"),
    "multi:": ("mlogloss", "merror", "auc"),
    "rank:": ("ndcg", "ndcg@3-", "map", "pre@2", "auc"),
    "count:": ("poisson-nloglik", "rmse"),
}


def _metrics(d: _Drawer, params: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """Now and then other metrics than the objective's own."""
    names = _METRICS.get(params["objective"].partition(":")[0] + ":", ())
    several = np.ndim(meta.get("label", 0)) > 1 or isinstance(params.get("quantile_alpha"), list)
    several = several or isinstance(params.get("expectile_alpha"), list)
    if not names or several or not d.chance(0.3):
        return {}
    return {"eval_metric": [str(name) for name in d.rng.permutation(names)[: int(d.rng.integers(1, len(names) + 1))]]}


def _avoid_refusals(params: dict[str, Any], is_quantile: bool, is_categorical: bool) -> None:
    """Change what XGBoost refuses too: most draws shall train."""
    method, booster = params.get("tree_method"), params["booster"]
    if booster == "gblinear" and (is_quantile or is_categorical):
        for name in ("updater", "feature_selector", "top_k"):
            params.pop(name, None)
        params["booster"] = "gbtree"
    wants_vectors = params.get("multi_strategy") == "multi_output_tree"
    if method in ("exact", "approx") and (is_quantile or wants_vectors or (method == "exact" and is_categorical)):
        params["tree_method"] = "hist"
        params.pop("sketch_proposal", None)
        params.pop("sketch_eps", None)
    if wants_vectors and (is_categorical or booster == "dart" or "monotone_constraints" in params):
        del params["multi_strategy"]
    is_local = params.get("sketch_proposal") == "local"
    is_symmetric = params.get("grow_policy") == "symmetric"
    has_no_levels = params.get("tree_method") == "exact" or is_local or params.get("max_depth", 0) > 16
    if has_no_levels and is_symmetric:
        params["grow_policy"] = "depthwise"
    if has_no_levels or wants_vectors:
        for name in CHOICES:
            params.pop(name, None)
    if is_categorical or is_symmetric or "monotone_constraints" in params or "path_smooth" in params:
        params.pop("min_data_in_leaf", None)
        params.pop("extra_trees", None)
    if is_categorical and params.get("sketch_proposal") == "local":
        params["sketch_proposal"] = "global"
    if is_quantile and params.get("cat_strategy") == "ordered_ts":
        del params["cat_strategy"]
    adds_alike = wants_vectors or booster == "dart" or "num_parallel_tree" in params
    if adds_alike or params["objective"] in _NO_SUM or params["objective"].startswith(("rank:", "survival:")):
        params.pop("boosting_type", None)


def _dropout(d: _Drawer) -> dict[str, Any]:
    p = {"rate_drop": d.one_of(0.0, 0.3, 1.0)}
    p |= d.maybe(0.3, "skip_drop", 0.5) | d.maybe(0.3, "one_drop", 1)
    return p | d.maybe(0.4, "normalize_type", "tree", "forest") | d.maybe(0.4, "sample_type", "uniform", "weighted")


def _linear(d: _Drawer) -> dict[str, Any]:
    p = d.maybe(0.5, "updater", "coord_descent", "shotgun") | d.maybe(0.5, "eta", 0.1, 0.5, 1.0)
    p |= d.maybe(0.4, "lambda", 0.0, 0.1, 10.0) | d.maybe(0.3, "alpha", 0.1, 1.0)
    if p.get("updater", "shotgun") == "coord_descent":
        p |= d.maybe(0.5, "feature_selector", "cyclic", "shuffle", "random", "greedy", "thrifty")
        p |= d.maybe(0.2, "top_k", 2)
    return p
