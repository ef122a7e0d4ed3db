"""`save_config`: the parameters in force as JSON, under the paths where XGBoost's tools look for them.

XGBoost's `load_config` reads what is written here, and the other way round. What only XGBoost has (the names of its
steps, parameters without effect here) is written as it stands, because XGBoost insists on finding it.
"""

import json
from typing import Any

import numpy as np

from arboost.boosters.learner import Learner
from arboost.metrics import Metric
from arboost.modelio.json_text import print_floats
from arboost.modelio.schema import FORMAT_VERSION
from arboost.params.extensions import EXTENSIONS
from arboost.params.resolve import TreeParams
from arboost.params.table import PARAMS, TREE_GROWERS
from arboost.runtime.errors import XGBoostError

_FILE_NAMES = {
    "reg_lambda": ("lambda", "reg_lambda"),
    "reg_alpha": ("alpha", "reg_alpha"),
    "eta": ("eta", "learning_rate"),
}
_FILE_NAMES["gamma"] = ("gamma", "min_split_loss")
_OTHER_NAMES = frozenset(names[1] for names in _FILE_NAMES.values())
# XGBoost has none of these: written if set
_OURS = ("sketch_eps", "sketch_proposal", "enable_bundle", *(param.name for param in EXTENSIONS))
_ELSEWHERE = ("num_parallel_tree", "tree_method", "process_type", "updater")
# XGBoost's tree and step parameters; those that the engine does not read are written as given or as their defaults.
_THEIR_TREE_PARAMS = (
    "interaction_constraints",
    "max_cat_threshold",
    "max_cat_to_onehot",
    "monotone_constraints",
    "sparse_threshold",
)
_STEPS_OF: dict[str, tuple[str, ...]] = {method: (name,) for method, name in TREE_GROWERS.items()}
_STEPS_OF["exact"] = (TREE_GROWERS["exact"], "prune")
_STEPS_OF["auto"] = _STEPS_OF["hist"]
_STEP_PARAMS = ("debug_synchronize", "max_cached_hist_node")
_GENERIC = ("seed", "seed_per_iteration", "nthread", "device", "validate_parameters")
_TRAIN = ("booster", "objective", "multi_strategy", "disable_default_eval_metric")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _unread(learner: Learner, name: str) -> str:
    """The text of a parameter that the engine does not read: as given, else its default."""
    param = PARAMS[name]
    given = learner.params.get(name, param.default)
    if name == "sparse_threshold":  # XGBoost's only double
        return f"{float(given):.17g}"
    return _text(param.parse(given))


def _tree_param(learner: Learner) -> dict[str, str]:
    given = learner.resolved.given
    tree = {name: v for name, v in learner.tree_params._asdict().items() if name not in _OURS or name in given}
    named = {n: _text(v) for name, v in tree.items() if name not in _ELSEWHERE for n in _FILE_NAMES.get(name, (name,))}
    named |= {name: _unread(learner, name) for name in _THEIR_TREE_PARAMS if name not in tree}
    return {name: named[name] for name in sorted(named)}


def _float_texts(values: Any) -> str:
    """A list of float32 numbers as XGBoost prints them."""
    return print_floats(np.atleast_1d(np.asarray(values, np.float32)))


def _metric(metric: Metric) -> dict[str, Any]:
    """A metric's name, and the parameters that XGBoost reads back with it."""
    entry: dict[str, Any] = {"name": metric.name}
    if metric.name in ("quantile", "expectile"):
        entry[f"{metric.name}_loss_param"] = {f"{metric.name}_alpha": _float_texts(getattr(metric, "alphas", ()))}
    elif metric.name == "aft-nloglik":
        names = ("aft_loss_distribution", "aft_loss_distribution_scale")
        entry["aft_loss_param"] = {name: _text(getattr(metric, name)) for name in names}
    elif metric.name == "mphe":
        entry["pseudo_huber_param"] = {"huber_slope": _text(getattr(metric, "huber_slope", 1.0))}
    return entry


def _step(learner: Learner, name: str) -> dict[str, Any]:
    """A step of growing trees, and the parameters that XGBoost reads back with it."""
    if name == TREE_GROWERS["exact"]:
        return {"colmaker_train_param": {"default_direction": "learn", "opt_dense_col": "1"}, "name": name}
    if name in TREE_GROWERS.values():
        return {"hist_train_param": {name: _unread(learner, name) for name in _STEP_PARAMS}, "name": name}
    return {"name": name}


def _linear_booster(learner: Learner) -> dict[str, Any]:
    """The linear booster's parameters."""
    linear = learner.resolved.linear._asdict()
    own = {name: linear.pop(name) for name in ("tolerance", "updater")}
    own["max_row_perbatch"] = _unread(learner, "max_row_perbatch")
    top_k = linear.pop("top_k")
    step: dict[str, Any] = {
        "linear_train_param": {n: _text(v) for name, v in linear.items() for n in _FILE_NAMES.get(name, (name,))}
    }
    if own["updater"] == "coord_descent":
        step["coordinate_param"] = {"top_k": _text(top_k)}
    return {
        "gblinear_train_param": {name: _text(own[name]) for name in sorted(own)},
        "name": "gblinear",
        "updater": step,
    }


def config_to_json(learner: Learner) -> str:
    """The learner's parameters and model facts."""
    tree, p = learner.tree_params, learner.resolved.learner
    model, loss = learner.model, learner.loss
    n_outputs, n_classes = learner.n_outputs, learner.n_classes
    generic = {"device": p.device, "nthread": p.nthread, "seed": p.seed, "seed_per_iteration": p.seed_per_iteration}
    generic |= {"n_jobs": p.nthread, "random_state": p.seed, "validate_parameters": p.validate_parameters}
    generic["fail_on_invalid_gpu_id"] = False
    steps = tree.updater or _STEPS_OF[tree.tree_method]
    booster: dict[str, Any] = {
        "gbtree_model_param": {"num_parallel_tree": str(tree.num_parallel_tree), "num_trees": str(len(model.trees))},
        "gbtree_train_param": {
            "process_type": tree.process_type,
            "tree_method": str(learner.resolved.given.get("tree_method", "auto")),
            "updater": ",".join(steps),
            "updater_seq": ",".join(steps),
        },
        "name": "gbtree",
        "specified_updater": bool(tree.updater),
        "tree_train_param": _tree_param(learner),
        "updater": [_step(learner, name) for name in steps],
    }
    if p.booster == "gblinear":
        booster = _linear_booster(learner)
    if p.booster == "dart":
        dropout = {name: _text(value) for name, value in sorted(learner.resolved.dart._asdict().items())}
        booster = {"dart_train_param": dropout, "gbtree": booster, "name": "dart"}
    facts = {
        "base_score": _float_texts(learner.intercept),
        "boost_from_average": _text(learner.boost_from_average),
        "num_class": str(n_classes),
        "num_feature": str(learner.n_features),
        "num_target": str(1 if n_classes else n_outputs),
    }
    train = {
        "booster": p.booster,
        "disable_default_eval_metric": _text(p.disable_default_eval_metric),
        "multi_strategy": p.multi_strategy,
        "objective": p.objective,
    }
    whole = {
        "generic_param": {k: _text(generic[k]) for k in sorted(generic)},
        "gradient_booster": booster,
        "learner_model_param": facts,
        "learner_train_param": train,
        "metrics": [_metric(metric) for metric in learner.metrics],
        "objective": loss.config(),
    }
    return json.dumps({"learner": whole, "version": list(FORMAT_VERSION)}, separators=(",", ":"), sort_keys=True)


def _booster_params(booster: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a configuration's booster."""
    if booster["name"] == "gblinear":
        groups = (booster["gblinear_train_param"], *booster["updater"].values())
        return {name: value for group in groups for name, value in group.items() if name not in _OTHER_NAMES}
    params = dict(booster.get("dart_train_param", {}))
    booster = booster.get("gbtree", booster)
    params |= {k: v for k, v in booster["tree_train_param"].items() if k in _FILE_PARAMS}
    params["tree_method"] = booster["gbtree_train_param"]["tree_method"]
    params["num_parallel_tree"] = booster["gbtree_model_param"]["num_parallel_tree"]
    return params


def config_from_json(text: str) -> dict[str, Any]:
    """The parameters of `config_to_json`'s text, or of XGBoost's `save_config`."""
    try:
        learner = json.loads(text)["learner"]
        booster = learner["gradient_booster"]
        params = _booster_params(booster)
        params |= {k: learner["generic_param"][k] for k in _GENERIC if k in learner["generic_param"]}
        params |= {k: learner["learner_train_param"][k] for k in _TRAIN if k in learner["learner_train_param"]}
        for group in learner["objective"].values():
            if isinstance(group, dict):
                params |= {k: v for k, v in group.items() if k != "max_delta_step"}
        params["num_class"] = learner["learner_model_param"].get("num_class", "0")
        params["eval_metric"] = [metric["name"] for metric in learner.get("metrics", [])]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise XGBoostError(f"not a configuration made by save_config: {error!r}") from error
    return params


_FILE_PARAMS = frozenset(
    {n for name in TreeParams._fields if name not in _ELSEWHERE for n in _FILE_NAMES.get(name, (name,))[:1]}
    | set(_THEIR_TREE_PARAMS)
)
