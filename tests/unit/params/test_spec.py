"""How one value becomes typed, and what is said when it cannot."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.params.spec import Param, closest, round_to_float32
from arboost.runtime.errors import XGBoostError

DEPTH = Param("max_depth", int, 6, "depth", lower=0)
RATE = Param("eta", float, 0.3, "rate", lower=0, aliases=("learning_rate",))
FRACTION = Param("subsample", float, 1.0, "rows", lower=0, upper=1)
HALF_OPEN = Param("power", float, 1.5, "power", lower=1, upper=2, upper_open=True)
FLAG = Param("flag", bool, False, "flag")
POLICY = Param("grow_policy", str, "depthwise", "policy", choices=("depthwise", "lossguide"))
ALPHAS = Param("quantile_alpha", tuple, (), "quantiles", lower=0, upper=1)
METRICS = Param("eval_metric", list, (), "metrics")


@given(st.integers(0, 2**31 - 1))
def test_int_from_every_spelling(number):
    for value in (number, str(number), f" {number} ", np.int64(number), float(number), f"{number}.0"):
        assert DEPTH.parse(value) == number
        assert type(DEPTH.parse(value)) is int


@pytest.mark.parametrize("value", [1.5, "1.5", "six", "", True, np.True_, None, [1], (), "nan", float("inf"), 1j])
def test_int_refuses(value):
    with pytest.raises(XGBoostError, match="Invalid Parameter format for max_depth: expect int but value="):
        DEPTH.parse(value)


@given(st.floats(0, 1e30, allow_nan=False))
def test_float_is_float32(number):
    rounded = float(np.float32(number))
    for value in (number, str(number), repr(number), np.float64(number)):
        assert RATE.parse(value) == rounded
        assert type(RATE.parse(value)) is float


@given(st.floats(allow_nan=False))
def test_rounding_is_numpys(number):
    with np.errstate(over="ignore"):
        assert round_to_float32(number) == float(np.float32(number))


@pytest.mark.parametrize("value", ["x", True, None, [0.3], {}, "1_0x"])
def test_float_refuses(value):
    with pytest.raises(XGBoostError, match=r"Invalid Parameter format for eta: expect float but value="):
        RATE.parse(value)


def test_nan_is_never_a_parameter():
    for param in (RATE, FRACTION, ALPHAS):
        with pytest.raises(XGBoostError, match="not a number"):
            param.parse(math.nan)


@pytest.mark.parametrize(
    ("param", "value", "message"),
    [
        (DEPTH, -1, "value -1 for Parameter max_depth should be greater equal to 0"),
        (DEPTH, 2**31, "value 2147483648 for Parameter max_depth exceed bound 2147483647"),
        (RATE, "-0.5", "value '-0.5' for Parameter eta should be greater equal to 0"),
        (FRACTION, 1.5, r"value 1.5 for Parameter subsample exceed bound \[0, 1\]"),
        (FRACTION, -0.1, r"value -0.1 for Parameter subsample exceed bound \[0, 1\]"),
        (HALF_OPEN, 2, r"value 2 for Parameter power exceed bound \[1, 2\)"),
        (ALPHAS, [0.5, 1.25], r"value 1.25 for Parameter quantile_alpha exceed bound \[0, 1\]"),
    ],
)
def test_bounds_are_named(param, value, message):
    with pytest.raises(XGBoostError, match=message):
        param.parse(value)


def test_open_lower_bound():
    param = Param("slope", float, 1.0, "slope", lower=0, lower_open=True)
    assert param.bounds == "(0, inf)"
    assert param.parse(0.5) == 0.5
    with pytest.raises(XGBoostError, match="should be greater than 0"):
        param.parse(0)


def test_bounds_in_words():
    assert DEPTH.bounds == "[0, inf)"
    assert HALF_OPEN.bounds == "[1, 2)"
    assert POLICY.bounds == "'depthwise', 'lossguide'"
    assert FLAG.bounds == ""
    assert Param("low", float, 0.0, "", upper=3).bounds == "(-inf, 3]"


def test_message_names_the_alias_the_user_wrote():
    with pytest.raises(XGBoostError, match=r"learning_rate \(eta\)"):
        RATE.parse(-1, "learning_rate")


@pytest.mark.parametrize("value", [True, "true", "True", 1, "1", np.True_, " TRUE "])
def test_bool_true(value):
    assert FLAG.parse(value) is True


@pytest.mark.parametrize("value", [False, "false", 0, "0", np.False_])
def test_bool_false(value):
    assert FLAG.parse(value) is False


@pytest.mark.parametrize("value", [2, "yes", 1.0, None, "", []])
def test_bool_refuses(value):
    with pytest.raises(XGBoostError, match="Invalid Parameter format for flag: expect boolean but value="):
        FLAG.parse(value)


def test_choices():
    assert POLICY.parse("lossguide") == "lossguide"
    with pytest.raises(XGBoostError, match=r"Invalid Input: 'lossguid' .*\{'depthwise', 'lossguide'\}.*Did you mean"):
        POLICY.parse("lossguid")
    for value in (0, None, "0", b"lossguide"):
        with pytest.raises(XGBoostError, match="Invalid Input"):
            POLICY.parse(value)


def test_choices_with_an_ordinal():
    device = Param("device", str, "cpu", "", choices=("cpu", "cuda:<ordinal>"), complaint="Invalid argument")
    assert device.parse("cuda:12") == "cuda:12"
    for value in ("cuda:", "cuda:x", "cuda:-1", "cpu:1"):
        with pytest.raises(XGBoostError, match="Invalid argument"):
            device.parse(value)


def test_unsupported_is_refused_only_when_it_says_something():
    flag = Param("flag", bool, False, "", supported=False)
    assert flag.parse("false") is False
    with pytest.raises(XGBoostError, match=r"flag.*True.*not available.*leave it unset"):
        flag.parse(True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, (0.5,)),
        ("0.5", (0.5,)),
        ("[0.25, 0.75]", (0.25, 0.75)),
        ("(0.25,0.75,)", (0.25, 0.75)),
        ("[5E-1]", (0.5,)),
        ([0.25, 0.75], (0.25, 0.75)),
        ((0.25,), (0.25,)),
        (np.array([0.25, 0.75]), (0.25, 0.75)),
        (np.array(0.25), (0.25,)),
        (np.float32(0.25), (0.25,)),
        ([], ()),
        ("", ()),
    ],
)
def test_numbers(value, expected):
    assert ALPHAS.parse(value) == expected


@pytest.mark.parametrize("value", ["[0.1", "[a]", "0.1,0.2", [None], {"a": 1}])
def test_numbers_refuse(value):
    with pytest.raises(XGBoostError, match="quantile_alpha"):
        ALPHAS.parse(value)


def test_names():
    assert METRICS.parse("rmse") == ("rmse",)
    assert METRICS.parse(["rmse", "mae", None, "rmse"]) == ("rmse", "mae")
    assert METRICS.parse(("rmse",)) == ("rmse",)
    assert METRICS.parse(np.array(["rmse", "auc"])) == ("rmse", "auc")
    with pytest.raises(XGBoostError, match="custom_metric"):
        METRICS.parse([len])
    for value in (3, [3]):
        with pytest.raises(XGBoostError, match="eval_metric"):
            METRICS.parse(value)


def test_plain_text():
    text = Param("name", str, "", "")
    assert text.parse("anything") == "anything"
    with pytest.raises(XGBoostError, match="expect str"):
        text.parse(3)


def test_closest():
    assert closest("Max_Dept", ["max_depth", "eta"]) == ' Did you mean "max_depth"?'
    assert closest("zzz", ["max_depth", "eta"]) == ""
