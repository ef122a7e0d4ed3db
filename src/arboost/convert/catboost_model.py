"""CatBoost's models: from the JSON that `save_model(format="json")` writes."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from arboost.assemble import assemble
from arboost.booster import Booster
from arboost.convert.drafts import Leaf, Split, above, make_tree
from arboost.matrix.categories import Categories
from arboost.runtime.errors import XGBoostError, type_name
from arboost.tree.model import Tree

# loss -> (objective, base_score that stands for a margin of 0); all others predict their margin
_LINKS = {
    "Logloss": ("binary:logistic", 0.5),
    "CrossEntropy": ("binary:logistic", 0.5),
    "MultiLogloss": ("binary:logistic", 0.5),
    "MultiCrossEntropy": ("binary:logistic", 0.5),
    "MultiClassOneVsAll": ("binary:logistic", 0.5),
    "MultiClass": ("multi:softprob", 0.0),
    "Poisson": ("count:poisson", 1.0),
    "Tweedie": ("reg:tweedie", 1.0),
    "MAE": ("reg:absoluteerror", 0.0),
}


def from_catboost(model: Any, pool: Any = None) -> Booster:
    """A CatBoost model as a Booster that predicts the same: probabilities of a classifier, values of a regressor.

    Parameters
    ----------
    model :
        A fitted model of CatBoost's, or the path of a file that `save_model(..., format="json")` wrote.
    pool :
        The training data, a `catboost.Pool`, for models with one-hot categories: the model itself keeps hashes of
        them only. A file has them if it was saved with `pool`.

    Returns
    -------
    Booster
        Values of 32 bits take the same way through every tree, so predictions differ by the rounding of leaves alone.

    Raises
    ------
    XGBoostError
        For what has no counterpart: statistics of categories (ctr), text and embeddings, hashes without names.
    """
    document = _document(model, pool)
    features = _Features(document["features_info"])
    scale, bias = document["scale_and_bias"]
    bias = np.atleast_1d(np.asarray(bias, np.float64))
    loss = _loss_name(document)
    n_outputs = max(1, len(bias))
    objective, zero = _LINKS.get(loss, ("reg:squarederror", 0.0))
    trees = [_nested(t, features, scale) for t in document.get("trees", ())]
    trees += [_oblivious(t, features, scale, n_outputs) for t in document.get("oblivious_trees", ())]
    made = [make_tree(root, features.n_features, n_outputs if n_outputs > 1 else 0) for root in trees]
    rounds = [[(tree, 0)] for tree in made]
    if (
        n_outputs > 1 and features.categories is not None
    ):  # vectors and categories do not go together in XGBoost's files
        rounds = [tree.per_target(0) for tree in made]
    if bias.any():  # no base_score of 32 bits would be it exactly for every link
        rounds.insert(0, _constant(bias, features.n_features, rounds))
    params: dict[str, Any] = {"objective": objective}
    if objective == "multi:softprob":
        params["num_class"] = n_outputs
    return assemble(
        params,
        rounds,
        np.full(n_outputs, zero),
        features.n_features,
        n_targets=1 if objective == "multi:softprob" else n_outputs,
        feature_names=features.names,
        feature_types=features.types,
        categories=features.categories,
    )


def _constant(bias: np.ndarray, n_features: int, rounds: list[list[tuple[Tree, int]]]) -> list[tuple[Tree, int]]:
    """A round of single leaves, of the kind that the other rounds have."""
    if len(bias) == 1:
        return [(make_tree(Leaf(float(bias[0])), n_features), 0)]
    whole = make_tree(Leaf(bias), n_features, len(bias))
    return [(whole, 0)] if rounds and rounds[0][0][0].has_vectors else whole.per_target(0)


def _document(model: Any, pool: Any) -> dict[str, Any]:
    """The model as CatBoost's JSON."""
    if isinstance(model, str | os.PathLike):
        return json.loads(Path(model).read_text(encoding="utf-8"))
    if not hasattr(model, "save_model") or not hasattr(model, "get_all_params"):
        raise TypeError(f"a model of CatBoost is a fitted estimator or the path of its JSON, got {type_name(model)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return json.loads(path.read_text(encoding="utf-8"))


def _loss_name(document: dict[str, Any]) -> str:
    params = document.get("model_info", {}).get("params", {})
    params = json.loads(params) if isinstance(params, str) else params
    return str(params.get("loss_function", {}).get("type", ""))


class _Features:
    """The columns of the data, and where splits find them."""

    def __init__(self, info: dict[str, Any]):
        for kind in ("text_features", "embedding_features"):
            if info.get(kind):
                raise XGBoostError(f"The model has {kind.replace('_', ' ')}, which cannot be converted.")
        floats, cats = info.get("float_features", []), info.get("categorical_features", [])
        self.n_features = 1 + max(f["flat_feature_index"] for f in (*floats, *cats))
        self._place_of_float = {f["feature_index"]: f["flat_feature_index"] for f in floats}
        self._place_of_cat = {f["feature_index"]: f["flat_feature_index"] for f in cats}
        # NaN is below all borders unless it is said to be above them
        self._nan_above = {f["feature_index"]: f.get("nan_value_treatment") == "AsTrue" for f in floats}
        names = {f["flat_feature_index"]: f.get("feature_name") or f.get("feature_id") for f in (*floats, *cats)}
        found = [names.get(i) or "" for i in range(self.n_features)]
        self.names = found if all(found) else None
        self._hashed = {int(e["hash"]) & 0xFFFFFFFF: e["value"] for e in info.get("cat_features_hash", [])}
        self._codes = {hashed: code for code, hashed in enumerate(self._hashed)}
        self.types: list[str] | None = None
        self.categories: Categories | None = None
        if cats:
            is_cat = set(self._place_of_cat.values())
            self.types = ["c" if i in is_cat else "float" for i in range(self.n_features)]
            texts = np.array([str(value) for value in self._hashed.values()], object)
            self.categories = Categories([texts if i in is_cat else None for i in range(self.n_features)]).stored()

    def split(self, split: dict[str, Any], left: Split | Leaf, right: Split | Leaf) -> Split:
        """A node: what satisfies the condition goes right."""
        kind = split["split_type"]
        if kind == "FloatFeature":
            feature = split["float_feature_index"]
            default_left = not self._nan_above[feature]
            return Split(self._place_of_float[feature], above(split["border"]).item(), default_left, left, right)
        if kind == "OneHotFeature":
            hashed = int(split["value"]) & 0xFFFFFFFF
            if hashed not in self._codes:
                raise XGBoostError(
                    "The model splits on a category of which it keeps the hash alone: pass pool, the training data."
                )
            place = self._place_of_cat[split["cat_feature_index"]]
            return Split(place, 0.0, True, left, right, np.array([self._codes[hashed]]))
        raise XGBoostError(
            f"The model has splits of type {kind!r}: statistics of the target by category (ctr) cannot be converted. "
            "Train it with one_hot_max_size above the number of categories, or on encoded columns."
        )


def _oblivious(tree: dict[str, Any], features: _Features, scale: float, n_outputs: int) -> Split | Leaf:
    """A symmetric tree: bit i of a leaf's number says whether split i holds; the last split is the root."""
    splits = tree.get("splits") or []
    values = np.asarray(tree["leaf_values"], np.float64).reshape(-1, n_outputs) * scale
    covers = tree.get("leaf_weights") or [0.0] * len(values)
    nodes: list[Split | Leaf] = [
        Leaf(value if n_outputs > 1 else float(value[0]), float(cover))
        for value, cover in zip(values, covers, strict=True)
    ]
    for split in splits:
        pairs = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [_with_cover(features.split(split, left, right)) for left, right in pairs]
    return nodes[0]


def _nested(tree: dict[str, Any], features: _Features, scale: float) -> Split | Leaf:
    """A tree of its own shape (grow_policy Depthwise or Lossguide)."""

    def make(node: dict[str, Any]) -> Split | Leaf:
        if "split" not in node:
            value = np.asarray(node["value"], np.float64) * scale
            return Leaf(float(value) if value.ndim == 0 else value, float(node.get("weight", 0.0)))
        return _with_cover(features.split(node["split"], make(node["left"]), make(node["right"])))

    return make(tree)


def _with_cover(node: Split) -> Split:
    node.cover = node.left.cover + node.right.cover
    return node
