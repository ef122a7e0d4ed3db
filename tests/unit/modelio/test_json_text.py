"""JSON text: floats to the last bit, and nothing that is not a document."""

import json
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import example, given
from hypothesis import strategies as st

from arboost.modelio import json_text
from arboost.modelio.files import load_bytes, save_bytes
from arboost.runtime.errors import ModelFileError
from naive_modelio import gbtree_cases

JSON_LIKE = st.recursive(
    st.text() | st.integers(-(2**31), 2**31) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON_LIKE, max_size=4))
def test_documents_survive_and_are_standard_json(doc):
    text = bytes(json_text.encode(doc))
    assert json_text.decode(text) == doc
    assert json.loads(text) == doc


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_floats_survive(values):
    array = np.array(values, np.float32)
    text = json_text.print_floats(array)
    assert np.array_equal(np.array(json.loads(text), np.float32), array)
    assert "inf" not in text and "e" not in text


def test_the_look_of_floats():
    values = np.array([0, -0.0, 1, 0.5, -1.5e-7, 1e-45, 3.4028235e38, 16777216, 123456.79, np.inf, -np.inf], np.float32)
    expected = "0E0,-0E0,1E0,5E-1,-1.5E-7,1E-45,3.4028235E38,1.6777216E7,1.2345679E5,Infinity,-Infinity"
    assert json_text.print_floats(values) == f"[{expected}]"
    assert json_text.print_floats(np.array([np.nan], np.float32)) == "[NaN]"
    assert json_text.print_floats(np.zeros(0, np.float32)) == "[]"


def exact_float32(text: str) -> float:
    """The nearest float32 by rational arithmetic."""
    exact = Fraction(text)
    start = np.float32(float(text))
    candidates = [start, np.nextafter(start, np.float32(np.inf)), np.nextafter(start, np.float32(-np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    return float(min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1)))


@given(st.floats(width=32, min_value=-(2.0**126), max_value=2.0**126), st.integers(-3, 3), st.integers(0, 40))
@example(1.0, 1, 25)
@example(1e-45, -1, 30)
@example(0.0, 1, 35)
def test_decimals_near_a_midpoint_are_rounded_once(value, offset, n_digits):
    """Half way to the next float32, give or take one unit in the n-th digit."""
    other = float(np.nextafter(np.float32(value), np.float32(np.inf)))
    with localcontext() as context:
        context.prec = 400
        middle = (Decimal(value) + Decimal(other)) / 2
        text = str(middle + Decimal(offset).scaleb(middle.adjusted() - n_digits)) if middle else "0.0"
    if "." not in text and "E" not in text:
        text += ".0"
    assert json_text.nearest_float32(text) == exact_float32(text)
    # the quick way is right, or says that it may not be
    number = np.array([float(text)])
    if not json_text.is_midpoint(number)[0]:
        assert float(np.float32(number[0])) == exact_float32(text)


def test_a_file_with_a_hard_decimal_is_read_exactly():
    case = gbtree_cases()["regression"]
    raw = case.raw("json")
    doc = case.doc()
    leaf = doc["learner"]["gradient_booster"]["model"]["trees"][0]["sum_hessian"][0]
    assert leaf == 250.0
    up, down = b"1.000000059604644775390625000001", b"1.000000059604644775390624999999"
    for text, expected in ((up, np.nextafter(np.float32(1), np.float32(2))), (down, np.float32(1))):
        changed = raw.replace(b'"sum_hessian":[2.5E2', b'"sum_hessian":[' + text)
        assert changed != raw
        assert load_bytes(changed).trees[0].cover[0] == expected
    for text, expected in ((b"16777217", 16777216), (b"16777219", 16777220)):  # integers, and real ties
        changed = raw.replace(b'"sum_hessian":[2.5E2', b'"sum_hessian":[' + text)
        assert load_bytes(changed).trees[0].cover[0] == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": 1}x', "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": "\\x"}', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid UTF-8 at byte 7"),
        (b'{"a": 1, "b": 2, "a": 1}', "a: the key occurs twice"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "absurd length"),
    ],
)
def test_what_is_not_json_is_refused(data, problem):
    with pytest.raises(ModelFileError, match=problem):
        json_text.decode(data)


def test_the_backslash_that_xgboost_forgets_to_escape():
    r"""XGBoost writes the attribute C:\users as "C:\users"."""
    case = gbtree_cases()["single_leaf"]
    booster = case.booster.copy()
    booster.set_attr(path="C:\\users\\\\u \\\\", code="\\u0041")
    raw = bytes(booster.save_raw("json"))
    with pytest.raises(json.JSONDecodeError):
        json.loads(raw)
    assert load_bytes(raw).attributes == {"path": "C:\\users\\\\u \\\\", "code": "A"}
    ours = save_bytes(load_bytes(booster.save_raw("ubj")), "json")
    assert xgb.Booster(model_file=ours).attributes() == booster.attributes()
