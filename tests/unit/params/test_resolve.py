"""From what a user wrote to frozen tuples: aliases, lists, unknown names, rules between parameters."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.params.resolve import LearnerParams, TreeParams, merge, normalize, resolve
from arboost.params.table import ALIASES, OBJECTIVES, PARAMS
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError


@pytest.fixture(autouse=True)
def no_warnings():
    """A warning that a test does not expect is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_defaults():
    resolved = resolve(None)
    assert resolved == resolve({}) == resolve([])
    assert resolved.tree.max_depth == 6
    assert resolved.tree.eta == float(np.float32(0.3))
    assert resolved.learner.objective == "reg:squarederror"
    assert resolved.learner.base_score is None
    assert resolved.learner.eval_metric == ()
    assert not resolved.given
    for part in (resolved.tree, resolved.learner):
        for name, value in part._asdict().items():
            default = PARAMS[name].default if name != "updater" else ()  # a text of names becomes those names
            assert value == (pytest.approx(default) if isinstance(default, float) else default)


@given(st.dictionaries(st.sampled_from([*PARAMS, *ALIASES]), st.text(max_size=6), max_size=4))
def test_any_text_is_used_or_refused(params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            resolved = resolve(params)
        except XGBoostError as error:
            assert len(str(error)) > 20
        else:
            assert isinstance(resolved.tree, TreeParams)
            assert isinstance(resolved.learner, LearnerParams)


def test_strings_mean_what_they_say():
    typed = {"max_depth": 4, "eta": 0.1, "seed_per_iteration": True, "lambda": 2, "base_score": 0.25}
    assert resolve({name: str(value) for name, value in typed.items()}) == resolve(typed)


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_alias(alias):
    name = ALIASES[alias]
    value = True if PARAMS[name].type is bool else 2
    resolved = resolve({alias: value})
    assert getattr(resolved.tree if name in TreeParams._fields else resolved.learner, name) == value
    assert resolved == resolve({name: value})


@pytest.mark.parametrize(
    ("lower", "higher"),
    [("eta", "learning_rate"), ("lambda", "reg_lambda"), ("gamma", "min_split_loss"), ("random_state", "seed")],
)
def test_of_two_spellings_the_alphabetically_later_is_used(lower, higher):
    """XGBoost keeps parameters in sorted order and reads the last; test_table.py asks the installed one."""
    name = ALIASES.get(lower, lower)
    for params in ({lower: 1, higher: 2}, {higher: 2, lower: 1}):
        with pytest.warns(UserWarning, match=f'one parameter with two values; 2 \\("{higher}"\\) is used'):
            assert resolve(params).given[name] == 2
    resolve({lower: 1, higher: 1})  # no disagreement, no warning


def test_pairs():
    pairs = [("max_depth", 3), ("eval_metric", "rmse"), ("eval_metric", ["mae", "rmse"]), ("max_depth", 5)]
    resolved = resolve(pairs)
    assert resolved.tree.max_depth == 5
    assert resolved.learner.eval_metric == ("rmse", "mae")


def test_none_is_not_set():
    assert resolve({"max_depth": None, "no_such": None, "base_score": None}) == resolve({})


@pytest.mark.parametrize("params", ["max_depth", 3, [("a",)], [("a", 1, 2)], {3: 4}])
def test_not_parameters(params):
    with pytest.raises(TypeError):
        resolve(params)


def test_normalize_and_merge():
    first = normalize({"learning_rate": 0.1, "eval_metric": "rmse", "lambda": "2"})
    assert first == {"eta": 0.1, "eval_metric": "rmse", "reg_lambda": "2"}
    later = merge(first, [("eta", 0.4), ("eval_metric", "mae")])
    assert later == {"eta": 0.4, "eval_metric": ["rmse", "mae"], "reg_lambda": "2"}
    assert first["eta"] == 0.1
    assert resolve(later).learner.eval_metric == ("rmse", "mae")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("max_dept", 'Did you mean "max_depth"?'),
        ("Learning_Rate", 'Did you mean "learning_rate"?'),
        ("num_leaves", 'use "max_leaves"'),
        ("num_boost_round", "argument of `train`"),
        ("silent", 'use "verbosity"'),
    ],
)
def test_unknown_name(name, advice):
    with pytest.warns(UserWarning) as caught:
        resolved = resolve({name: 3})
    message = str(caught[0].message)
    assert message.startswith(f'Parameters: {{ "{name}" }} are not used.')
    assert advice in message
    assert caught[0].filename == __file__
    assert resolved.unknown == (name,)
    assert resolved.tree == resolve({}).tree


def test_unknown_names_are_sorted_and_told_together():
    with pytest.warns(UserWarning, match='{ "bar", "foo", "rate_drop" } are not used'):
        resolved = resolve({"foo": 1, "rate_drop": 0.1, "bar": 2})
    assert resolved.unknown == ("bar", "foo")
    assert resolved.unused == ("rate_drop",)


@pytest.mark.parametrize(
    ("params", "unused"),
    [
        ({"quantile_alpha": 0.5}, True),
        ({"quantile_alpha": 0.5, "eval_metric": "quantile"}, False),
        ({"quantile_alpha": 0.5, "objective": "reg:quantileerror"}, False),
        ({"huber_slope": 2, "objective": "reg:pseudohubererror"}, False),
        ({"huber_slope": 0}, True),
        ({"scale_pos_weight": 2, "objective": "binary:hinge"}, True),
        ({"scale_pos_weight": 2, "objective": "binary:logistic"}, False),
        ({"lambdarank_pair_method": "anything"}, True),
        ({"ndcg_exp_gain": False, "eval_metric": ["rmse", "ndcg@5"]}, False),
    ],
)
def test_known_name_that_nothing_reads(params, unused):
    if unused:
        with pytest.warns(UserWarning, match=r"are not used\.\n  .*is read only by"):
            assert resolve(params).unused == (next(iter(params)),)
    else:
        assert resolve(params).unused == ()


def test_silence():
    resolve({"foo": 1, "verbosity": 0})
    resolve({"foo": 1, "validate_parameters": "false"})
    resolve({"foo": 1}, warn=False)
    with settings.changed(verbosity=0):
        resolve({"foo": 1})


@pytest.mark.parametrize("params", [{"max_dept": 3}, {"rate_drop": 0.1}, {"eta": 0.1, "learning_rate": 0.2}])
def test_strict(params):
    with settings.changed(strict_parameters=True):
        with pytest.raises(XGBoostError, match=r"are not used|two values"):
            resolve(params)
        with pytest.raises(XGBoostError):
            resolve({**params, "verbosity": 0}, warn=False)
        resolve({"max_depth": 3})


@pytest.mark.parametrize("device", ["cuda", "gpu:1"])
def test_without_a_gpu_the_cpu_is_used(device):
    with pytest.warns(UserWarning, match=f"changed from {device} to CPU"):
        assert resolve({"device": device}).learner.device == "cpu"


@pytest.mark.parametrize(
    "params",
    [
        {"booster": "gbtree", "device": "cpu", "tree_method": "hist", "sampling_method": "uniform"},
        {"multi_strategy": "one_output_per_tree", "process_type": "default"},
        {"multi_strategy": "multi_output_tree"},
        {"updater": "grow_quantile_histmaker"},
        {"monotone_constraints": "()"},
        {"interaction_constraints": ""},
        {"max_cached_hist_node": 1000, "debug_synchronize": 1, "sparse_threshold": 0.5},
    ],
    ids=str,
)
def test_values_that_ask_for_nothing_new(params):
    assert resolve(params).tree._replace(tree_method="auto", updater=()) == resolve({}).tree


def test_every_objective_of_the_engine():
    for name in OBJECTIVES:
        params = {"objective": name, "num_class": 3, "quantile_alpha": 0.5, "expectile_alpha": 0.5}
        assert resolve(params, warn=False).learner.objective == name


def test_objective_in_wrong_words():
    with pytest.raises(XGBoostError, match=r"Unknown objective function.*Did you mean \"binary:logistic\""):
        resolve({"objective": "binary:logistik"})
    with pytest.raises(XGBoostError, match="as `obj`"):
        resolve({"objective": len})
    with pytest.warns(UserWarning, match="reg:linear is now deprecated"):
        assert resolve({"objective": "reg:linear"}).learner.objective == "reg:squarederror"
    with pytest.raises(XGBoostError, match="Use `device` instead"):
        resolve({"gpu_id": 0})


def test_poisson_has_its_own_max_delta_step():
    step = float(np.float32(0.7))
    poisson = resolve({"objective": "count:poisson"})
    assert poisson.tree.max_delta_step == poisson.learner.max_delta_step == step
    given = resolve({"objective": "count:poisson", "max_delta_step": 0.25})
    assert given.tree.max_delta_step == given.learner.max_delta_step == 0.25
    assert resolve({"max_delta_step": 0.25}).tree.max_delta_step == 0.25


def test_rules_between_parameters():
    for name in ("multi:softmax", "multi:softprob"):
        with pytest.raises(XGBoostError, match="num_class should be greater equal to 1"):
            resolve({"objective": name})
        assert resolve({"objective": name, "num_class": "3"}).learner.num_class == 3
    with pytest.raises(XGBoostError, match="set quantile_alpha"):
        resolve({"objective": "reg:quantileerror"})
    with pytest.raises(XGBoostError, match="slope for pseudo huber cannot be 0"):
        resolve({"objective": "reg:pseudohubererror", "huber_slope": 0})


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 0.5), ("0.5", 0.5), ([0.5], 0.5), ("[5E-1]", 0.5), ([0.25, 0.75], (0.25, 0.75)), (-1, -1.0)],
)
def test_base_score(value, expected):
    assert resolve({"base_score": value}).learner.base_score == expected


@pytest.mark.parametrize("value", ["abc", float("nan"), float("inf"), []])
def test_bad_base_score(value):
    with pytest.raises(XGBoostError, match="base_score"):
        resolve({"base_score": value})


def test_configuration_fills_in_what_is_not_set():
    with settings.changed(verbosity=2, nthread=3):
        learner = resolve({}).learner
        assert (learner.verbosity, learner.nthread) == (2, 3)
        learner = resolve({"verbosity": 1, "n_jobs": 5}).learner
        assert (learner.verbosity, learner.nthread) == (1, 5)


def test_given_is_typed_and_read_only():
    given = resolve({"learning_rate": "0.5", "foo": 1}, warn=False).given
    assert dict(given) == {"eta": 0.5}
    with pytest.raises(TypeError):
        given["eta"] = 1
