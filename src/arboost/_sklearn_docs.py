"""Docstrings of the scikit-learn estimators: the parameters, described from the parameter table."""

import inspect
import textwrap

from arboost.params.table import ALIASES, PARAMS

_OWN_DOCS = {
    "n_estimators": ("int", "100", "Rounds of boosting; for a forest, its trees."),
    "missing": ("float", "nan", "The value that stands for a missing one."),
    "importance_type": (
        "str",
        '"gain"',
        "Kind of `feature_importances_`: gain, weight, cover, total_gain, total_cover.",
    ),
    "enable_categorical": ("bool", "False", "Take categorical columns of data frames as such."),
    "feature_types": ("list of str", "None", "Types of the features where X does not tell, see `DMatrix`."),
    "feature_weights": ("array", "None", "Weights with which features are sampled."),
    "eval_metric": (
        "str, function or list",
        "None",
        "Metrics to report: XGBoost's names, or a function like those of `sklearn.metrics`, which early stopping "
        "minimises. The last one decides early stopping.",
    ),
    "objective": (
        "str or function",
        "None",
        "The loss: its name, or a function (y_true, y_pred[, sample_weight]) -> (gradient, hessian).",
    ),
    "random_state": ("int, RandomState or Generator", "0", PARAMS["seed"].doc),
    "early_stopping_rounds": (
        "int",
        "None",
        "Stop when the last of `eval_set` has not improved for so many rounds; predictions then use the best round.",
    ),
    "callbacks": ("list", "None", "Objects of `arboost.callback.TrainingCallback`."),
    "early_stopping": (
        "bool",
        "False",
        "Where `fit` gets no `eval_set`: set rows aside and stop early on them, so that it works inside searches. "
        "`early_stopping_rounds` is then 10 unless set.",
    ),
    "validation_fraction": (
        "float",
        "0.1",
        "Share of the rows (for ranking: of the groups) set aside by `early_stopping`, drawn with `random_state` and "
        "from every class alike.",
    ),
    "class_weight": (
        'dict or "balanced"',
        "None",
        'Weight of each class, times `sample_weight`; "balanced" gives every class the same sum of weights.',
    ),
    "kwargs": ("", "", "Any other parameter of `train`."),
}


def _parameter_doc(name: str, own_default: object) -> str:
    """One parameter in numpydoc, from the parameter table where it is the engine's."""
    if name in _OWN_DOCS:
        kind, default, text = _OWN_DOCS[name]
    else:
        param = PARAMS[ALIASES.get(name, name)]
        kind, default, text = param.type.__name__, repr(param.default), param.doc
        kind = {"object": "str, dict or list", "tuple": "float or list"}.get(kind, kind)
    if own_default is not None:
        default = repr(own_default)
    head = f"{name} : {kind}, default {default}" if kind else f"**{name} :"
    return f"    {head}\n{textwrap.fill(text, 110, initial_indent=' ' * 8, subsequent_indent=' ' * 8)}\n"


def document(*classes: type) -> None:
    """Add the parameters to the docstrings, in the order of the constructors; the first class is the others' base."""
    for cls in classes:
        parameters: dict[str, inspect.Parameter] = {}
        for owner in reversed([c for c in cls.__mro__ if issubclass(c, classes[0])]):
            parameters |= inspect.signature(owner).parameters
        names = [name for name in parameters if name != "kwargs"]
        text = "".join(_parameter_doc(name, parameters[name].default) for name in names)
        text += _parameter_doc("kwargs", None)
        cls.__doc__ = f"{cls.__doc__}\n\n    Parameters\n    ----------\n{text}"
