"""The table against itself, and against the installed XGBoost: names, aliases, defaults, bounds, choices."""

import json
import re

import numpy as np
import pytest

from arboost.params.extensions import EXTENSIONS
from arboost.params.markdown import as_markdown
from arboost.params.resolve import LearnerParams, TreeParams, resolve
from arboost.params.table import ALIASES, CONFIG_PARAMS, GROUPS, HINTS, PARAMS, REMOVED
from arboost.runtime.errors import XGBoostError

xgboost = pytest.importorskip("xgboost")

# What XGBoost's configuration holds besides parameters that a user sets.
NOT_PARAMETERS = {"updater_seq", "specified_updater", "num_trees", "name"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.rand(40, 3)
    label = rng.uniform(0.25, 0.75, 40)
    dtrain = xgboost.DMatrix(X, label, label_lower_bound=label, label_upper_bound=label + 1)
    label = np.round(label)
    grouped = xgboost.DMatrix(X, label)
    grouped.set_group([20, 20])
    return {"plain": dtrain, "grouped": grouped}


@pytest.fixture(autouse=True)
def quiet_xgboost():
    with xgboost.config_context(verbosity=0):
        yield


# Parameters that XGBoost does not have.
OURS = ("unseen_category", "quantile_crossing", "enable_bundle", "sketch_eps", "sketch_proposal")
OURS += tuple(param.name for param in EXTENSIONS)
MORE_CHOICES = {"grow_policy": {"symmetric"}, "sampling_method": {"goss"}}  # and these values

# Which objective or booster makes XGBoost read the parameters of each group.
READERS = {
    "dart": {"booster": "dart"},
    "linear": {"booster": "gblinear"},
    "ranking": {"objective": "rank:ndcg"},
    "survival": {"objective": "survival:aft"},
    "tweedie_variance_power": {"objective": "reg:tweedie"},
    "huber_slope": {"objective": "reg:pseudohubererror"},
    "quantile_alpha": {"objective": "reg:quantileerror", "quantile_alpha": 0.5},
}


def reader_of(param):
    return READERS.get(param.name) or READERS.get(param.group) or {}


def train_xgboost(data, params):
    dtrain = data["grouped" if params.get("objective", "").startswith("rank") else "plain"]
    return xgboost.train({"nthread": 1, "max_depth": 1, **params}, dtrain, 1)


def leaves_of(node):
    """(name, value) of every string in a configuration."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for name, value in items:
        if isinstance(value, dict | list):
            yield from leaves_of(value)
        else:
            yield name, value


def configuration(data, params):
    learner = json.loads(train_xgboost(data, params).save_config())["learner"]
    return {name: value for name, value in leaves_of(learner) if isinstance(name, str)}


def test_every_name_is_spelled_once():
    names = [name for param in PARAMS.values() for name in (param.name, *param.aliases)]
    assert len(names) == len(set(names))
    assert not set(HINTS) & set(names)
    assert not set(REMOVED) & set(names)
    assert set(ALIASES.values()) <= set(PARAMS)


@pytest.mark.parametrize("param", [*PARAMS.values(), *CONFIG_PARAMS.values()], ids=lambda param: param.name)
def test_every_entry_is_sound(param):
    assert param.doc.endswith(".")
    assert param.group in GROUPS
    if param.default is not None:
        parsed = param.parse(param.default)
        assert parsed == (pytest.approx(param.default) if param.type is float else param.default)


def test_tuples_are_made_of_table_names():
    assert set(TreeParams._fields) <= set(PARAMS)
    assert set(LearnerParams._fields) <= set(PARAMS)


@pytest.mark.parametrize(
    "selection",
    [{}, *READERS.values(), {"objective": "count:poisson"}, {"objective": "binary:logistic"}],
    ids=lambda params: ",".join(map(str, params.values())) or "default",
)
def test_names_and_defaults_are_xgboosts(data, selection):
    config = configuration(data, selection)
    for name, text in config.items():
        if name in NOT_PARAMETERS or name in selection or name in ("base_score", "max_depth", "nthread", "n_jobs"):
            continue
        param = PARAMS[ALIASES.get(name, name)]
        if name in ("updater", "num_feature", "num_target") or (
            selection == READERS["linear"] and param.group == "tree"
        ):
            continue  # the first follow from the data; gblinear has defaults of its own for eta, alpha and lambda
        if name == "max_delta_step" and selection.get("objective") == "count:poisson":
            assert float(text) == pytest.approx(0.7)
        elif param.type in (str, object):
            assert text == param.default
        else:
            assert param.parse(text) == param.parse(param.default)


def probes(param):
    """Values around the bounds of a numeric parameter."""
    for bound in (param.lower, param.upper):
        if bound is not None and abs(bound) < 1e6:
            step = 1 if param.type is int else 0.125
            yield from (bound - step, bound, bound + step)


# Not compared: the first three are taken from the data, `verbosity` outlives its training run in XGBoost, `top_k` is
# not read by the default updater.
NOT_PROBED = {"max_bin", "num_target", "num_feature", "verbosity", "top_k"}
READ_AS_UNSIGNED = {"lambdarank_num_pair_per_sample", "max_row_perbatch"}  # -1 becomes the largest number


@pytest.mark.parametrize(
    "param",
    [p for p in PARAMS.values() if p.type in (int, float) and p.name not in NOT_PROBED.union(OURS)],
    ids=lambda param: param.name,
)
def test_bounds_are_xgboosts(data, param):
    for value in probes(param):
        if value < 0 and param.name in READ_AS_UNSIGNED:
            continue
        assert accepts_ours(param, value) == accepts_xgboost(data, param, value), value


def accepts_ours(param, value):
    try:
        param.parse(value)
    except XGBoostError:
        return False
    return True


def accepts_xgboost(data, param, value):
    try:
        train_xgboost(data, {**reader_of(param), param.name: value})
    except xgboost.core.XGBoostError:
        return False
    return True


@pytest.mark.parametrize("value", [1, 2, 0])
def test_max_bin_lower_bound_is_xgboosts(data, value):
    assert accepts_ours(PARAMS["max_bin"], value) == accepts_xgboost(data, PARAMS["max_bin"], value)


@pytest.mark.parametrize(
    "param",
    [p for p in PARAMS.values() if p.choices and p.name not in ("booster", "device", "objective", *OURS)],
    ids=lambda param: param.name,
)
def test_choices_are_xgboosts(data, param):
    with pytest.raises(xgboost.core.XGBoostError) as error:
        train_xgboost(data, {**reader_of(param), param.name: "no such thing"})
    listed = re.search(r"valid values are: \{(.*?)\}", str(error.value)).group(1)
    assert set(re.findall(r"'(\w+)'", listed)) == set(param.choices) - MORE_CHOICES.get(param.name, set())


def test_objectives_are_xgboosts(data):
    with pytest.raises(xgboost.core.XGBoostError) as error:
        train_xgboost(data, {"objective": "no such thing"})
    listed = set(re.findall(r"Objective candidate: (\S+)", str(error.value)))
    ours = set(PARAMS["objective"].choices)
    assert listed - ours == {"reg:linear"}
    assert ours - listed <= {"reg:expectileerror"}  # newer than 3.2


THEIRS = [param for param in PARAMS.values() if param not in EXTENSIONS]


@pytest.mark.parametrize("names", [(p.name, alias) for p in THEIRS for alias in p.aliases], ids=str)
def test_of_two_spellings_xgboost_reads_the_same_one(data, names):
    for first, second in (names, names[::-1]):
        params = {first: 1, second: 2}
        theirs = configuration(data, params)[names[0]]
        assert float(theirs) == resolve(params, warn=False).given[names[0]]


def test_parameters_that_an_objective_reads(data):
    def is_read(params):
        with pytest.warns(UserWarning) as caught, xgboost.config_context(verbosity=1):
            train_xgboost(data, {**params, "no_such_name": 1})
        return not any('"' + [*params][-1] + '"' in str(w.message) for w in caught)

    for objective in ("reg:squarederror", "reg:absoluteerror", "reg:gamma", "reg:tweedie", "reg:pseudohubererror"):
        for name, value in {"scale_pos_weight": 2, "tweedie_variance_power": 1.25, "huber_slope": 2}.items():
            assert is_read({"objective": objective, name: value}) == (objective in PARAMS[name].used_by)
    assert is_read({"eval_metric": "mphe", "huber_slope": 2}) == ("mphe" in PARAMS["huber_slope"].used_by)


def test_configuration_has_xgboosts_names():
    assert set(xgboost.get_config()) <= set(CONFIG_PARAMS)
    for name, value in xgboost.get_config().items():
        if name != "verbosity":
            assert CONFIG_PARAMS[name].default == value


def test_markdown_lists_everything():
    text = as_markdown()
    for param in PARAMS.values():
        for name in (param.name, *param.aliases):
            assert f"`{name}`" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 5
