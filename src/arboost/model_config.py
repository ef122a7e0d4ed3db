"""`save_config`: the parameters in force as JSON, under the paths where XGBoost's tools look for them."""

import json
from typing import Any

from arboost.boosters.learner import Learner
from arboost.modelio.schema import FORMAT_VERSION
from arboost.params.resolve import TreeParams
from arboost.runtime.errors import XGBoostError

_FILE_NAMES = {
    "reg_lambda": ("lambda", "reg_lambda"),
    "reg_alpha": ("alpha", "reg_alpha"),
    "eta": ("eta", "learning_rate"),
}
_FILE_NAMES["gamma"] = ("gamma", "min_split_loss")
_ELSEWHERE = ("num_parallel_tree", "tree_method")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _tree_param(tree: TreeParams) -> dict[str, str]:
    named = {
        n: v for name, v in tree._asdict().items() if name not in _ELSEWHERE for n in _FILE_NAMES.get(name, (name,))
    }
    return {name: _text(named[name]) for name in sorted(named)}


def config_to_json(learner: Learner) -> str:
    """The learner's parameters and model facts."""
    tree, p = learner.tree_params, learner.resolved.learner
    model, loss = learner.model, learner.loss
    n_outputs, is_multi = learner.n_outputs, loss.name.startswith("multi:")
    generic = {"device": p.device, "nthread": p.nthread, "seed": p.seed, "seed_per_iteration": p.seed_per_iteration}
    generic |= {"n_jobs": p.nthread, "random_state": p.seed, "validate_parameters": p.validate_parameters}
    booster = {
        "gbtree_model_param": {"num_parallel_tree": str(tree.num_parallel_tree), "num_trees": str(len(model.trees))},
        "gbtree_train_param": {
            "process_type": "default",
            "tree_method": tree.tree_method,
            "updater": "grow_quantile_histmaker",
        },
        "name": p.booster,
        "tree_train_param": _tree_param(tree),
    }
    facts = {
        "base_score": json.dumps(learner.intercept.tolist(), separators=(",", ":")),
        "boost_from_average": _text(learner.boost_from_average),
        "num_class": str(n_outputs if is_multi else 0),
        "num_feature": str(learner.n_features),
        "num_target": str(1 if is_multi else n_outputs),
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
        "metrics": [{"name": metric.name} for metric in learner.metrics],
        "objective": loss.config(),
    }
    return json.dumps({"learner": whole, "version": list(FORMAT_VERSION)}, separators=(",", ":"), sort_keys=True)


def config_from_json(text: str) -> dict[str, Any]:
    """The parameters of `config_to_json`'s text, or of XGBoost's `save_config`."""
    try:
        learner = json.loads(text)["learner"]
        booster = learner["gradient_booster"]
        params = {
            name: booster["tree_train_param"][name] for name in _FILE_PARAMS if name in booster["tree_train_param"]
        }
        params["tree_method"] = booster["gbtree_train_param"]["tree_method"]
        params["num_parallel_tree"] = booster["gbtree_model_param"]["num_parallel_tree"]
        params |= {
            k: learner["generic_param"][k] for k in ("seed", "nthread", "device") if k in learner["generic_param"]
        }
        params |= {k: learner["learner_train_param"][k] for k in ("booster", "objective", "multi_strategy")}
        for group in learner["objective"].values():
            if isinstance(group, dict):
                params |= {k: v for k, v in group.items() if k != "max_delta_step"}
        if learner["learner_train_param"]["objective"].startswith("multi:"):
            params["num_class"] = learner["learner_model_param"]["num_class"]
        params["eval_metric"] = [metric["name"] for metric in learner.get("metrics", [])]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise XGBoostError(f"not a configuration made by save_config: {error!r}") from error
    return params


_FILE_PARAMS = tuple(
    n for name in TreeParams._fields if name not in _ELSEWHERE for n in _FILE_NAMES.get(name, (name,))[:1]
)
