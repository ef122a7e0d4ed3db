"""The faces are XGBoost's: names, signatures and defaults, compared with the installed one.

What is missing or different is listed with its reason; an exception that is no longer needed fails too.
"""

import importlib
import inspect

import pytest

import arboost

xgboost = pytest.importorskip("xgboost")

LATER = "comes with a later part of the plan"
INTERNAL = "an inner piece of XGBoost's data handling"

# What XGBoost has and arboost does not.
ABSENT = {
    "": {
        "DataIter": LATER,
        "ExtMemQuantileDMatrix": LATER,
        "RabitTracker": LATER,
        "XGBClassifier": LATER,
        "XGBModel": LATER,
        "XGBRFClassifier": LATER,
        "XGBRFRegressor": LATER,
        "XGBRanker": LATER,
        "XGBRegressor": LATER,
        "collective": LATER,
        "plot_importance": LATER,
        "plot_tree": LATER,
        "to_graphviz": LATER,
    },
    "Booster": {"get_categories": LATER, "get_split_value_histogram": LATER, "trees_to_dataframe": LATER},
    "DMatrix": {"get_categories": LATER, "save_binary": LATER},
    "QuantileDMatrix": {"get_categories": LATER, "save_binary": LATER},
    "callback": {},
    "training": {"groups_to_rows": INTERNAL, "mkgroupfold": INTERNAL, "mknfold": INTERNAL},
    "config": {"config_doc": "writes XGBoost's docstrings"},
}
CLASSES = ["Booster", "DMatrix", "QuantileDMatrix"]
CALLBACKS = [
    "TrainingCallback",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "TrainingCheckPoint",
    "CallbackContainer",
]


def described(function):
    """Names, kinds and defaults of the parameters; of a default that is a function only that it is one."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, "function" if inspect.isfunction(p.default) else p.default) for p in parameters]


def public_names(owner):
    """Names that users may call: of a class all without an underscore, of a module those defined in it."""
    names = [name for name in dir(owner) if not name.startswith("_")]
    if inspect.isclass(owner):
        return names
    return [name for name in names if getattr(getattr(owner, name), "__module__", None) == owner.__name__]


def callables():
    """(place, ours, theirs) of every function and method that both have."""
    for name in ("train", "cv", "set_config", "get_config", "config_context", "build_info"):
        yield name, getattr(arboost, name), getattr(xgboost, name)
    pairs = [(name, getattr(arboost, name), getattr(xgboost, name)) for name in CLASSES]
    pairs += [(name, getattr(arboost.callback, name), getattr(xgboost.callback, name)) for name in CALLBACKS]
    special = ("__getitem__", "__iter__", "__copy__")
    for name, our_class, their_class in pairs:
        yield name, our_class, their_class
        for method in [*public_names(their_class), *special]:
            theirs, ours = inspect.getattr_static(their_class, method, None), getattr(our_class, method, None)
            if inspect.isfunction(theirs) and ours is not None:
                yield f"{name}.{method}", ours, getattr(their_class, method)


@pytest.mark.parametrize(("place", "ours", "theirs"), [pytest.param(*c, id=c[0]) for c in callables()])
def test_signatures_and_defaults(place, ours, theirs):
    assert described(ours) == described(theirs)


@pytest.mark.parametrize("name", CLASSES)
def test_properties(name):
    our_class, their_class = getattr(arboost, name), getattr(xgboost, name)
    for attribute in public_names(their_class):
        theirs = inspect.getattr_static(their_class, attribute)
        if isinstance(theirs, property) and attribute != "ref":  # XGBoost's own code sets `ref`, users only read it
            ours = inspect.getattr_static(our_class, attribute)
            assert isinstance(ours, property), attribute
            assert (ours.fset is None) == (theirs.fset is None), attribute


@pytest.mark.parametrize("place", ABSENT)
def test_every_name_of_xgboost_is_here_or_explained(place):
    if place == "":
        ours, theirs, names = arboost, xgboost, xgboost.__all__
    elif place in CLASSES:
        ours, theirs = getattr(arboost, place), getattr(xgboost, place)
        names = public_names(theirs)
    else:
        ours, theirs = (importlib.import_module(f"{library}.{place}") for library in ("arboost", "xgboost"))
        names = public_names(theirs)
    absent = {name for name in names if not hasattr(ours, name)}
    assert absent == set(ABSENT[place])


def test_modules_that_users_import_from():
    from arboost.callback import EarlyStopping, TrainingCallback  # noqa: F401
    from arboost.config import config_context  # noqa: F401
    from arboost.core import Booster, DataSplitMode, DMatrix, QuantileDMatrix, XGBoostError
    from arboost.data import DMatrix as DMatrixOfData  # noqa: F401
    from arboost.training import CVPack, cv, train  # noqa: F401

    assert arboost.Booster is Booster
    assert arboost.DMatrix is DMatrix
    assert issubclass(QuantileDMatrix, DMatrix)
    assert issubclass(XGBoostError, ValueError)
    assert issubclass(xgboost.core.XGBoostError, ValueError)
    assert [*DataSplitMode.__members__] == [*xgboost.core.DataSplitMode.__members__]


def test_what_is_public_is_listed():
    assert set(arboost.__all__) <= set(dir(arboost))
    assert isinstance(arboost.__version__, str)
    info, theirs = arboost.build_info(), xgboost.build_info()
    assert {"USE_OPENMP", "USE_CUDA"} <= set(info) & set(theirs)


@pytest.mark.parametrize("place", ["train", "cv", "Booster.predict", "Booster.inplace_predict"])
def test_old_scripts_pass_arguments_by_position(place):
    """Keyword-only arguments may come by position, with a FutureWarning that names them, as in XGBoost."""
    import numpy as np

    data = arboost.DMatrix(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    booster = arboost.train({"max_depth": 1}, data, 1)
    calls = {
        "train": lambda: arboost.train({"max_depth": 1}, data, 1, [(data, "t")]),
        "cv": lambda: arboost.cv({"max_depth": 1}, data, 1, 2),
        "Booster.predict": lambda: booster.predict(data, True),
        "Booster.inplace_predict": lambda: booster.inplace_predict(np.zeros((3, 2)), (0, 1)),
    }
    first = {"train": "evals", "cv": "nfold", "Booster.predict": "output_margin"}.get(place, "iteration_range")
    with pytest.warns(FutureWarning, match=f"Pass `{first}` as keyword args"):
        calls[place]()
