"""The faces are XGBoost's: every public name, method, property and signature, compared with the installed one.

What is missing or different stands in one dict with its reason; an exception that is no longer needed fails too.
"""

import enum
import importlib
import inspect
import math
import subprocess
import sys

import pytest

import arboost

xgboost = pytest.importorskip("xgboost")
pytest.importorskip("sklearn")

CTYPES = "talks to XGBoost's C library, there is none here"
DATA = "an inner step of XGBoost's data handling, ours is arboost.matrix"
FOLDS = "an inner step of XGBoost's cv()"
DOC = "writes XGBoost's docstrings"
FITTED = "an attribute that `fit` sets, as scikit-learn asks; XGBoost computes it"
CATEGORIES = "an inner step of XGBoost's estimators"

# Place -> why it is not here, or why it differs. A place is "module.name", "module.Class.method" or "signature of ...".
EXCEPTIONS = {
    **{
        f"core.{name}": CTYPES
        for name in (
            "c_array",
            "c_str",
            "ctypes2buffer",
            "ctypes2numpy",
            "from_cstr_to_pystr",
            "from_pystr_to_cstr",
            "make_jcargs",
        )
    },
    **{f"core.DataIter.{name}": CTYPES for name in ("get_callbacks", "proxy", "reraise")},
    "core.IterRange": "a type variable of XGBoost's annotations",
    "core.require_keyword_args": "an old decorator of XGBoost's own functions",
    **{
        f"data.{name}": DATA
        for name in (
            "ArrowTransformed",
            "CudfTransformed",
            "PandasTransformed",
            "SingleBatchInternalIter",
            "dispatch_data_backend",
            "dispatch_meta_backend",
            "dispatch_proxy_set_data",
            "is_nullable_dtype",
            "is_on_cuda",
            "is_pa_ext_categorical_dtype",
            "is_pa_ext_dtype",
            "is_pd_cat_dtype",
            "is_pd_sparse_dtype",
            "is_scipy_coo",
            "is_scipy_csc",
            "is_scipy_csr",
            "pandas_feature_info",
            "pandas_pa_type",
            "pandas_transform_data",
            "transform_scipy_sparse",
        )
    },
    "config.config_doc": DOC,
    "training.groups_to_rows": FOLDS,
    "training.mkgroupfold": FOLDS,
    "training.mknfold": FOLDS,
    "sklearn.PredtT": "a type variable of XGBoost's annotations",
    "sklearn.TDoc": "a type variable of XGBoost's annotations",
    "sklearn.xgboost_model_doc": DOC,
    "sklearn.get_model_categories": CATEGORIES,
    "sklearn.pick_ref_categories": CATEGORIES,
    "sklearn.XGBRankerMixIn": "an empty class that tells scikit-learn's old versions what a ranker is",
    "sklearn.ltr_metric_decorator": "an inner step of XGBoost's ranker",
    "sklearn.XGBClassifier.classes_": FITTED,
    "sklearn.XGBRFClassifier.classes_": FITTED,
}

# Keyword arguments of ours that XGBoost does not have.
EXTRA = {
    "XGBModel": {"early_stopping", "validation_fraction"},  # early stopping inside of a search
    "XGBClassifier": {"class_weight"},
    "Booster.predict": {"output"},  # predictions of what is larger than memory go to a file
    "DMatrix": {"memory_budget", "cache_prefix"},
    "data.DMatrix": {"memory_budget", "cache_prefix"},
    "ExtMemQuantileDMatrix": {"memory_budget"},
}

MODULES = [
    "callback",
    "collective",
    "compat",
    "config",
    "core",
    "data",
    "objective",
    "plotting",
    "sklearn",
    "tracker",
    "training",
]
SPECIAL = ("__call__", "__copy__", "__enter__", "__exit__", "__getitem__", "__iter__")


def find(library, place):
    """What stands at "module.Class.method"; raises AttributeError or ImportError where nothing does."""
    module, _, rest = place.partition(".")
    if module in MODULES:
        found = importlib.import_module(f"{library.__name__}.{module}")
    else:
        found, rest = library, place
    for name in rest.split(".") if rest else ():
        found = getattr(found, name)
    return found


def is_here(place):
    try:
        find(arboost, place)
    except (AttributeError, ImportError):
        return False
    return True


def names_of_package():
    """XGBoost's public names at top level, its modules included."""
    modules = [name for name, value in vars(xgboost).items() if inspect.ismodule(value) and not name.startswith("_")]
    return sorted({*xgboost.__all__, *MODULES, *modules} - {"federated", "dask", "spark", "testing"})


def names_of_module(module):
    """Names that a module defines itself, and the constants that others import from it."""
    theirs = importlib.import_module(f"xgboost.{module}")
    own = [
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == theirs.__name__
    ]
    more = {
        "compat": ["SKLEARN_INSTALLED", "XGBClassifierBase", "XGBModelBase", "XGBRegressorBase", "XGBStratifiedKFold"],
        "core": ["Objective", "TreeObjective"],
        "data": ["DMatrix"],
    }
    return sorted({*own, *more.get(module, [])})


NAMES = names_of_package() + [f"{module}.{name}" for module in MODULES for name in names_of_module(module)]
CLASSES = [
    place
    for place in NAMES
    if "." in place and inspect.isclass(find(xgboost, place)) and place not in EXCEPTIONS
    if not place.startswith(("compat.", "data."))  # scikit-learn's classes, and the same as in core
]


def members(place):
    """Public methods and attributes of one of XGBoost's classes, and the special methods that it defines."""
    cls = find(xgboost, place)
    special = [name for name in SPECIAL if inspect.isfunction(getattr(cls, name, None))]
    return sorted({name for name in dir(cls) if not name.startswith("_")} | set(special))


MEMBERS = [f"{place}.{name}" for place in CLASSES for name in members(place)]


def described(function):
    """Names, kinds and defaults of the parameters; of a default that is a function only that it is one."""
    return [(p.name, p.kind, plain(p.default)) for p in inspect.signature(function).parameters.values()]


def plain(default):
    """A default in a form that can be compared between the two libraries."""
    if inspect.isfunction(default):
        return "function"
    if isinstance(default, enum.Enum):
        return (type(default).__name__, default.name)
    if isinstance(default, float) and math.isnan(default):
        return "nan"
    return default


def with_signature(places):
    """Places of functions, methods and classes whose parameters can be looked at."""
    chosen = []
    for place in places:
        theirs = find(xgboost, place)
        is_enum = inspect.isclass(theirs) and issubclass(theirs, enum.Enum)
        if (inspect.isroutine(theirs) or inspect.isclass(theirs)) and not is_enum and place not in EXCEPTIONS:
            try:
                inspect.signature(theirs)
            except ValueError:  # written in C
                continue
            chosen.append(place)
    return chosen


def test_there_is_something_to_compare():
    """Guards the tests below: they are made from what is found in XGBoost."""
    assert len(NAMES) > 100
    assert len(MEMBERS) > 300
    assert {"core.Booster", "core.DMatrix", "sklearn.XGBClassifier", "callback.EarlyStopping"} <= set(CLASSES)
    assert not is_here("core.Nonsense")


@pytest.mark.parametrize("place", [name for name in NAMES if name not in EXCEPTIONS])
def test_name_is_here(place):
    assert is_here(place)


@pytest.mark.parametrize("place", [name for name in MEMBERS if name not in EXCEPTIONS])
def test_member_is_here(place):
    assert is_here(place)


@pytest.mark.parametrize("place", with_signature([*NAMES, *MEMBERS]))
def test_signature(place):
    extra = EXTRA.get(place.removeprefix("sklearn.").removeprefix("core."), ())
    ours = [parameter for parameter in described(find(arboost, place)) if parameter[0] not in extra]
    assert ours == described(find(xgboost, place))


@pytest.mark.parametrize("place", CLASSES)
def test_properties(place):
    """A property is one here too, and can be set where XGBoost's can."""
    ours, theirs = find(arboost, place), find(xgboost, place)
    for name in members(place):
        property_ = inspect.getattr_static(theirs, name)
        # XGBoost's own code sets `ref`, users only read it
        if isinstance(property_, property) and name != "ref" and f"{place}.{name}" not in EXCEPTIONS:
            mine = inspect.getattr_static(ours, name)
            assert isinstance(mine, property), name
            assert (mine.fset is None) == (property_.fset is None), name


@pytest.mark.parametrize("place", [place for place in CLASSES if issubclass(find(xgboost, place), enum.Enum)])
def test_enumerations(place):
    pairs = [{name: member.value for name, member in find(library, place).__members__.items()} for library in LIBRARIES]
    assert pairs[0] == pairs[1]


LIBRARIES = (arboost, xgboost)


@pytest.mark.parametrize("place", EXCEPTIONS)
def test_exceptions_are_needed(place):
    assert EXCEPTIONS[place]
    assert place in NAMES + MEMBERS, "XGBoost has no such name"
    assert not is_here(place), "it is here: take the exception out"


@pytest.mark.parametrize(
    "place", ["XGBoostError", "Booster", "DMatrix", "QuantileDMatrix", "ExtMemQuantileDMatrix", "DataIter"]
)
def test_one_class_under_all_its_names(place):
    ours = find(arboost, f"core.{place}")
    if place != "XGBoostError":
        assert getattr(arboost, place) is ours
    else:
        assert ours is arboost.runtime.errors.XGBoostError
        assert issubclass(ours, ValueError)
        assert issubclass(xgboost.core.XGBoostError, ValueError)
    assert [base.__name__ for base in ours.__mro__ if base.__name__ in ("DMatrix", "ValueError")] == [
        base.__name__ for base in find(xgboost, f"core.{place}").__mro__ if base.__name__ in ("DMatrix", "ValueError")
    ]


def test_what_is_public_is_listed():
    assert sorted(set(arboost.__all__)) == sorted(arboost.__all__)
    assert set(arboost.__all__) <= set(dir(arboost))
    assert all(hasattr(arboost, name) for name in arboost.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = arboost.nonsense


def test_lazy_names_stay_asleep_until_used():
    code = (
        "import sys, arboost; assert not {'sklearn', 'matplotlib', 'pandas'} & set(sys.modules); "
        "import arboost.sklearn; assert arboost.XGBClassifier is arboost.sklearn.XGBClassifier"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_build_information():
    """Every fact that XGBoost reports and that means something without a C++ library."""
    ours, theirs = arboost.build_info(), xgboost.build_info()
    of_the_library = {"GCC_VERSION", "GLIBC_VERSION", "MM_PREFETCH_PRESENT", "libxgboost"}
    assert theirs.keys() - ours.keys() <= of_the_library
    assert all(isinstance(ours[name], bool) for name in ours.keys() & theirs.keys())
    assert ours["version"] == arboost.__version__
    assert not ours["USE_CUDA"]


def test_global_configuration():
    xgboost.set_config(verbosity=1)  # its trainings leave their `verbosity` there
    assert arboost.get_config().keys() >= xgboost.get_config().keys()
    assert {k: arboost.get_config()[k] for k in xgboost.get_config()} == xgboost.get_config()
    for library in LIBRARIES:
        with library.config_context(verbosity=0):
            assert library.get_config()["verbosity"] == 0
            with library.config_context(verbosity=3):
                assert library.get_config()["verbosity"] == 3
            library.set_config(verbosity=2)
        assert library.get_config()["verbosity"] == 1
        with pytest.raises(ValueError):
            library.set_config(verbosity=7)
        library.set_config(verbosity=1)  # XGBoost has taken the 7 it complained about


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
