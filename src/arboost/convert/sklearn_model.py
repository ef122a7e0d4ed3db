"""scikit-learn's trees: single ones, forests, both kinds of gradient boosting, AdaBoost. Known by their attributes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special

from arboost._sklearn_fit import store_classes
from arboost.assemble import assemble
from arboost.booster import Booster
from arboost.convert.drafts import above, set_categories
from arboost.matrix.categories import Categories
from arboost.runtime.errors import XGBoostError, type_name
from arboost.tree.model import NO_PARENT, NO_THRESHOLD, Tree

Rounds = list[list[tuple[Tree, int]]]


def from_sklearn(model: Any) -> Booster:
    """A model of scikit-learn's as a Booster that predicts the same.

    Parameters
    ----------
    model :
        A fitted `DecisionTree*`, `ExtraTree*`, `RandomForest*`, `ExtraTrees*`, `GradientBoosting*`,
        `HistGradientBoosting*` or `AdaBoostClassifier` on trees.

    Returns
    -------
    Booster
        Its prediction is that of the model: values of a regressor, probabilities of a classifier (of class 1 of two).
        The classes are kept for `XGBClassifier.load_model`. Values of 32 bits take the same way through every tree, so
        predictions differ by the rounding of leaves alone.

    Raises
    ------
    XGBoostError
        For what is no sum of trees: `AdaBoostRegressor` (a median), other members than trees, classifiers of several
        outputs, an `init` that is no constant.
    """
    kind = type(model).__name__
    if not hasattr(model, "n_features_in_"):
        raise TypeError(f"a fitted model of scikit-learn is expected, got {type_name(model)}")
    if kind.startswith("HistGradientBoosting"):
        booster = _hist_boosting(model)
    elif kind.startswith("GradientBoosting"):
        booster = _boosting(model)
    elif kind == "AdaBoostClassifier":
        booster = _adaboost(model)
    elif hasattr(model, "tree_"):
        booster = _mean_of_trees(model, [model.tree_])
    elif kind.startswith(("RandomForest", "ExtraTrees")) and not kind.endswith("Embedding"):
        booster = _mean_of_trees(model, [member.tree_ for member in model.estimators_])
    else:
        reason = " predicts a median, which is no sum of trees" if kind == "AdaBoostRegressor" else " is not supported"
        raise XGBoostError(f"{kind}{reason}: it cannot be converted.")
    if hasattr(model, "classes_"):
        store_classes(booster, model.classes_)
    return booster


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _blank(left: np.ndarray, right: np.ndarray, n_features: int) -> Tree:
    """A tree of the given links; leaves are where left < 0. Everything else is still to be filled in."""
    n = len(left)
    parent = np.full(n, NO_PARENT, np.int32)
    inner = np.flatnonzero(left >= 0)
    parent[left[inner]] = parent[right[inner]] = inner
    zeros = np.zeros(n, np.float32)
    return Tree(
        np.where(left >= 0, left, -1).astype(np.int32),
        np.where(left >= 0, right, -1).astype(np.int32),
        parent,
        np.zeros(n, np.int32),
        zeros,
        np.zeros(n, np.uint8),
        zeros.copy(),
        zeros.copy(),
        zeros.copy(),
        n_features,
    )


def _cart(tree: Any, values: np.ndarray) -> Tree:
    """A tree of `sklearn.tree`; values (n_nodes, K) are what its nodes predict."""
    made = _blank(tree.children_left, tree.children_right, tree.n_features)
    inner = made.left >= 0
    made.feature[inner] = tree.feature[inner]
    made.threshold[inner] = above(tree.threshold[inner])
    made.default_left[inner] = tree.missing_go_to_left[inner]
    weight = tree.weighted_n_node_samples
    made.cover = weight.astype(np.float32)
    impure = weight * tree.impurity
    made.gain[inner] = impure[inner] - impure[made.left[inner]] - impure[made.right[inner]]
    values = values.astype(np.float32)
    if values.shape[1] == 1:
        made.threshold[~inner] = values[~inner, 0]
        made.base_weight = values[:, 0].copy()
    else:
        made.threshold[~inner] = NO_THRESHOLD
        made.base_weight = values.copy()
        made.vectors = np.where(inner[:, None], np.float32(0), values)
    return made


def _node_values(model: Any, tree: Any) -> np.ndarray:
    """(n_nodes, K) what nodes predict: means, or shares of classes (of two, the share of the second)."""
    values = tree.value
    if not hasattr(model, "classes_"):
        return values[:, :, 0]
    if values.shape[1] > 1:
        raise XGBoostError(f"{type(model).__name__} has {values.shape[1]} outputs of classes: it cannot be converted.")
    shares = values[:, 0, :] / values[:, 0, :].sum(axis=1, keepdims=True)
    return shares[:, 1:] if shares.shape[1] == 2 else shares


def _mean_of_trees(model: Any, trees: Sequence[Any]) -> Booster:
    made = [_cart(tree, _node_values(model, tree) / len(trees)) for tree in trees]
    n_targets = made[0].n_targets
    return assemble(
        {"objective": "reg:squarederror", "num_parallel_tree": len(made)},
        [[(tree, 0) for tree in made]],
        np.zeros(n_targets),
        model.n_features_in_,
        n_targets=n_targets,
        num_parallel_tree=len(made),
        feature_names=_names(model),
    )


def _boosting(model: Any) -> Booster:
    """Friedman's boosting: constant start, trees times the learning rate."""
    rounds: Rounds = [
        [
            (_cart(member.tree_, member.tree_.value[:, :, 0] * model.learning_rate), k)
            for k, member in enumerate(members)
        ]
        for members in model.estimators_
    ]
    start = _constant_start(model)
    if not hasattr(model, "classes_"):
        return _boosted({"objective": "reg:squarederror"}, rounds, start, 0.0, model)
    if model.loss == "exponential":  # scores are half of the log odds
        start, rounds = 2 * start, [[(tree.scaled(2), k) for tree, k in pairs] for pairs in rounds]
    params, zero = _objective(len(model.classes_))
    return _boosted(params, rounds, start, zero, model)


def _objective(n_classes: int) -> tuple[dict[str, Any], float]:
    """(parameters, base_score that stands for a margin of 0) of a classifier."""
    if n_classes > 2:
        return {"objective": "multi:softprob", "num_class": n_classes}, 0.0
    return {"objective": "binary:logistic"}, 0.5


def _constant_start(model: Any) -> np.ndarray:
    """(K,) the score before the first tree."""
    init, eps = model.init_, np.finfo(np.float64).eps
    if isinstance(init, str) and init == "zero":
        return np.zeros(model.n_trees_per_iteration_)
    if type(init).__name__ == "DummyRegressor":
        return np.ravel(init.constant_)
    if type(init).__name__ == "DummyClassifier" and init.strategy == "prior":
        prior = np.clip(init.class_prior_, eps, 1.0 - eps)
        if len(prior) > 2:
            return np.log(prior) - np.log(prior).mean()
        odds = scipy.special.logit(prior[1:])
        return 0.5 * odds if model.loss == "exponential" else odds
    raise XGBoostError(f"The model starts from {type(init).__name__}, no constant: it cannot be converted.")


def _boosted(
    params: dict[str, Any], rounds: Rounds, start: np.ndarray, zero: float, model: Any, **more: Any
) -> Booster:
    """A boosted model; the start is a round of its own, where no base_score of 32 bits would be it exactly."""
    first = []
    for k, value in enumerate(np.ravel(start)):
        tree = Tree.blank(model.n_features_in_)
        tree.threshold[0] = tree.base_weight[0] = value
        first.append((tree, k))
    named = {"feature_names": _names(model), **more}
    return assemble(params, [first, *rounds], np.full(len(first), zero), model.n_features_in_, **named)


def _hist_boosting(model: Any) -> Booster:
    """Boosting on histograms, missing values and categories included."""
    places, categories = _hist_features(model)
    rounds: Rounds = [
        [(_hist_tree(member, model, places, categories), k) for k, member in enumerate(members)]
        for members in model._predictors
    ]
    start = np.ravel(model._baseline_prediction)
    types = None
    if model.is_categorical_ is not None:
        types = ["c" if is_cat else "float" for is_cat in model.is_categorical_]
    stored = None if categories is None else Categories(categories).stored()
    more = {"feature_types": types, "categories": stored if any(_is_text(v) for v in categories or ()) else None}
    if hasattr(model, "classes_"):
        params, zero = _objective(len(model.classes_))
        return _boosted(params, rounds, start, zero, model, **more)
    links = {"poisson": ("count:poisson", 1.0), "gamma": ("reg:gamma", 1.0)}
    objective, zero = links.get(model.loss, ("reg:squarederror", 0.0))
    return _boosted({"objective": objective}, rounds, start, zero, model, **more)


def _is_text(values: np.ndarray | None) -> bool:
    return values is not None and values.dtype.kind == "O"


def _hist_features(model: Any) -> tuple[np.ndarray, list[np.ndarray | None] | None]:
    """(column of each feature of the trees, categories of each column): categorical ones come first in the trees."""
    n = model.n_features_in_
    if model.is_categorical_ is None:
        return np.arange(n), None
    is_cat = np.asarray(model.is_categorical_)
    places = np.concatenate([np.flatnonzero(is_cat), np.flatnonzero(~is_cat)])
    values: list[np.ndarray | None] = [None] * n
    encoded = model._preprocessor.named_transformers_["encoder"].categories_
    for place, names in zip(np.flatnonzero(is_cat), encoded, strict=True):
        known = np.asarray(names)
        if known.dtype.kind == "f":
            known = known[~np.isnan(known)]
        elif known.dtype.kind == "O":
            known = np.array([name for name in known if isinstance(name, str)], object)
        values[place] = known
    return places, values


def _hist_tree(member: Any, model: Any, places: np.ndarray, categories: list[np.ndarray | None] | None) -> Tree:
    nodes = member.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    by_set = (nodes["is_categorical"].astype(bool)) & ~is_leaf
    missing_left = nodes["missing_go_to_left"].astype(bool)
    # here members of a set go right and all else, unseen categories too, goes left: as missing ones must
    flipped = by_set & ~missing_left
    left, right = np.where(flipped, right, left), np.where(flipped, left, right)
    made = _blank(left, right, model.n_features_in_)
    inner = ~is_leaf
    made.feature[inner] = places[nodes["feature_idx"][inner]]
    made.threshold[inner] = above(nodes["num_threshold"][inner])
    made.default_left[inner] = (missing_left | by_set)[inner]
    made.threshold[is_leaf] = made.base_weight[is_leaf] = nodes["value"][is_leaf]
    made.cover = nodes["count"].astype(np.float32)
    made.gain[inner] = np.nan_to_num(nodes["gain"][inner])
    sets: dict[int, np.ndarray] = {}
    for node in np.flatnonzero(by_set):
        known = (categories or [])[made.feature[node]]
        assert known is not None
        goes_left = _bits(member.raw_left_cat_bitsets[nodes["bitset_idx"][node]])[: len(known)]
        chosen = np.flatnonzero(goes_left if flipped[node] else ~goes_left)
        sets[int(node)] = chosen if _is_text(known) else _as_codes(known[chosen])
    if sets:
        set_categories(made, sets)
    return made


def _bits(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(words, np.uint32).view(np.uint8), bitorder="little").astype(bool)


def _as_codes(values: np.ndarray) -> np.ndarray:
    """Numbers that stand for categories, which must be whole and not negative."""
    if (values < 0).any() or (values != np.rint(values)).any():
        raise XGBoostError("The model has categories that are negative or no whole numbers: they cannot be converted.")
    return values.astype(np.int64)


def _adaboost(model: Any) -> Booster:
    """Weighted votes of trees, divided by the sum of weights (and for K classes by K - 1)."""
    n_classes, total = len(model.classes_), model.estimator_weights_[: len(model.estimators_)].sum()
    rounds: Rounds = []
    for member, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        if not hasattr(member, "tree_"):
            raise XGBoostError(f"AdaBoost's members are {type(member).__name__}, no trees: it cannot be converted.")
        chosen = member.tree_.value[:, 0, :].argmax(axis=1)
        if n_classes == 2:
            votes = np.where(chosen == 1, 2 * weight, -2 * weight)[:, None] / total
        else:
            others = weight / (n_classes - 1)
            votes = np.where(np.arange(n_classes) == chosen[:, None], weight, -others) / total / (n_classes - 1)
        rounds.append([(_cart(member.tree_, votes), 0)])
    params, zero = _objective(n_classes)
    base_score = np.full(n_classes if n_classes > 2 else 1, zero)
    return assemble(params, rounds, base_score, model.n_features_in_, feature_names=_names(model))
