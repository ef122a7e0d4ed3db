"""UBJSON: round trips, the variants of other writers, and hostile bytes."""

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arboost.modelio import ubjson
from arboost.runtime.errors import ModelFileError

DTYPES = ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"]
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, st.integers(0, 5)))
VALUES = st.recursive(
    st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | ARRAYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def size(n: int) -> bytes:
    return b"L" + struct.pack(">q", n)


def same(a, b) -> bool:
    """Equal values of equal kinds, arrays to the bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.astype(b.dtype).tobytes() == b.tobytes() and a.dtype.kind == b.dtype.kind
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(VALUES)
def test_values_survive(value):
    assert same(value, ubjson.decode(ubjson.encode(value)))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({}, b"{}"),
        ({"b": 1, "a": "x"}, b"{" + size(1) + b"aS" + size(1) + b"x" + size(1) + b"bi\x01}"),
        ([], b"[#" + size(0)),
        ([0, 126, 127, -127, -128, 32766, 32767], None),
        (np.array([1, -1], np.int32), b"[$l#" + size(2) + b"\0\0\0\1\xff\xff\xff\xff"),
        (np.array([1], np.float32), b"[$d#" + size(1) + b"\x3f\x80\0\0"),
        ("ü", b"S" + size(2) + b"\xc3\xbc"),
    ],
)
def test_the_bytes_are_those_of_xgboost(value, data):
    if data is None:  # a type's extreme values take the next larger type
        data = b"[#" + size(7) + b"i\0i\x7eI\0\x7fi\x81I\xff\x80I\x7f\xfel\0\0\x7f\xff"
    assert ubjson.encode(value) == data


def test_only_what_a_model_holds_can_be_encoded():
    with pytest.raises(TypeError, match="complex"):
        ubjson.encode({"a": 1j})


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{i\x01ai\x05}", {"a": 5}),
        (b"{#i\x01U\x01aT", {"a": True}),
        (b"[i\x01NNi\x02]", [1, 2]),
        (b"[NF]", [False]),
        (b"[#i\x02CaCb", ["a", "b"]),
        (b"[D" + struct.pack(">d", 0.5) + b"d" + struct.pack(">f", 2) + b"Z]", [0.5, 2.0, None]),
        (b"[]", []),
    ],
)
def test_variants_of_other_writers(data, value):
    assert ubjson.decode(data) == value


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "1 bytes announced, 0 left"),
        (b"{", "1 bytes announced"),
        (b"{}{", "1 bytes follow the end"),
        (b"{i\x01a", "^a: 1 bytes announced"),
        (b"{i\xffa", "negative length"),
        (b"{Sax", "expected a length"),
        (b"{i\x01ai\x01i\x01ai\x01}", "^a: the key occurs twice"),
        (b"{$i#i\x01i\x01a\x01", "typed objects"),
        (b"{i\x01xX}", "^x: unknown marker b'X'"),
        (b"{i\x01xHi\x011}", "^x: unknown marker b'H'"),
        (b"{i\x01xSi\x02\xc3\x28}", "^x: a string that is not UTF-8"),
        (b"{i\x01x[#L" + struct.pack(">q", 2**60) + b"}", "x: 1152921504606846976 values announced"),
        (b"{i\x01x[$d#L" + struct.pack(">q", 2**60) + b"}", "x: 4611686018427387904 bytes announced"),
        (b"{i\x01x[$d#L" + struct.pack(">q", 2**62) + b"}", "x: .* bytes announced"),
        (b"{i\x01x[$Z#L" + struct.pack(">q", 2**40) + b"}", "x: an array of unknown type b'Z'"),
        (b"{i\x01x[$l\0\0\0\1}", "x: a typed array without a count"),
        (b"{i\x01x[i\x01Q]}", r"x\[1\]: unknown marker"),
        (b"{i\x01xSL" + struct.pack(">q", 2**60) + b"}", "x: .* bytes announced"),
        (b"{#L" + struct.pack(">q", 2**60), "1 bytes announced"),
        (b"[" * 10**6, "nested too deeply"),
        (b"{i\x01a" * 10**5, "nested too deeply"),
        (b"N" * 10**4, "1 bytes announced"),
    ],
)
def test_damaged_bytes_are_refused_without_a_large_allocation(data, problem):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=problem):
            ubjson.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 10**6 + 4 * len(data)
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_decoded(data):
    try:
        value = ubjson.decode(data)
    except ModelFileError:
        return
    assert len(repr(value)) < 10_000
