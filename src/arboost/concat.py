"""Models put one behind the other: `Booster.concat`. XGBoost has slices of models, but not the way back."""

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from arboost.boosters.dart import Dart
from arboost.boosters.gblinear import LinearModel
from arboost.boosters.gbtree import GBTree
from arboost.runtime.errors import XGBoostError, type_name

if TYPE_CHECKING:
    from arboost.booster import Booster


def concat(models: Iterable["Booster"], kind: type["Booster"]) -> "Booster":
    """The rounds of all models, on the first one's intercept; see `Booster.concat`."""
    models = list(models)
    if not models:
        raise XGBoostError("There is nothing to concatenate: give one model or more.")
    for i, model in enumerate(models):
        if not isinstance(model, kind):
            raise TypeError(f"models[{i}] is a {type_name(model)}; models to concatenate are Boosters of arboost.")
        if not model._learner.n_features:
            raise XGBoostError(f"models[{i}] has not been trained or loaded yet.")
        if isinstance(model._learner.model, LinearModel):
            raise XGBoostError(f"models[{i}] is gblinear: one set of weights, without rounds to put behind others.")
        _check_alike(models[0], model, i)
    whole = copy.copy(models[0])
    whole._learner.model = _join([model._learner.model.as_trees() for model in models])
    whole._learner.forget_data()
    for name in ("best_iteration", "best_score"):
        whole._attributes.pop(name, None)
    return whole


def _facts(model: "Booster") -> dict[str, Any]:
    """What models must have in common, by the words of an error."""
    learner = model._learner
    codes = None
    if learner.categories is not None:
        codes = [None if values is None else values.tolist() for values in learner.categories.values]
    return {
        "number of features": learner.n_features,
        "objective": learner.loss.name,
        "number of outputs": learner.n_outputs,
        "num_parallel_tree": learner.tree_params.num_parallel_tree if learner.model.n_rounds else None,
        "kind of leaves (multi_strategy)": learner.model.trees[0].has_vectors if learner.model.n_rounds else None,
        "feature names": model.feature_names,
        "feature types": model.feature_types,
        "codes of categories": codes,
        "target statistics": id(None if learner.statistics is None else learner.statistics.groups),
    }


def _check_alike(first: "Booster", model: "Booster", number: int) -> None:
    """Refuse a model whose trees would mean something else behind those of the first; None agrees with everything."""
    for (what, a), b in zip(_facts(first).items(), _facts(model).values(), strict=True):
        if a is not None and b is not None and a != b:
            shown = "" if what.startswith(("codes", "target")) else f": {b!r} and {a!r}"
            raise XGBoostError(f"models[{number}] and models[0] have another {what}{shown}. They cannot be one model.")


def _join(models: list[GBTree]) -> GBTree:
    """One model of all rounds; trees are shared, not copied."""
    if any(model.kind == "dart" for model in models):
        models = [model if isinstance(model, Dart) else Dart.of_trees(model) for model in models]
    parallel = next((model.num_parallel_tree for model in models if model.n_rounds), models[0].num_parallel_tree)
    whole = models[0].slice_rounds(range(models[0].n_rounds))
    whole.num_parallel_tree = parallel
    for model in models[1:]:
        whole.append(model)
    return whole
