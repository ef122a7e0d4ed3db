"""The kernel and the line by line reader of text agree: in values, in what they refuse, and in its words."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arboost.kernels.cpu.data import text as kernels
from arboost.matrix import text
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

NUMBER = st.floats(width=32, allow_nan=False, allow_infinity=False)
CTX = Context(n_threads=3)


def read_by_kernel(words):
    """Every word a line of its own, and a span; NaN where the kernel gave up."""
    block = "".join(f"{word}\n" for word in words).encode()
    ptr = np.concatenate([[0], np.cumsum([len(word) + 1 for word in words])])
    numbers, found = np.full((len(words), 1), np.nan), np.zeros(len(words), np.int64)
    kernels.read_csv(
        np.frombuffer(block, np.uint8), kernels.powers_of_ten(), np.uint8(ord(",")), np.array([-1]), ptr,
        np.arange(len(words) + 1), np.empty((len(words), 0), np.float32), numbers, found, 0, len(words),
    )  # fmt: skip
    return numbers[:, 0], found


def halfway(mantissa, shift):
    """A whole number exactly between two doubles."""
    return str((2 * mantissa + 1) << shift)


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.floats(-1e6, 1e6).map(lambda x: f"{x:.25f}"),
            st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
            st.builds(halfway, st.integers(2**52, 2**53 - 1), st.integers(0, 9)),
            st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-", "+"]), st.integers(0, 10**25),
                      st.integers(0, 10**9), st.integers(-330, 330)),
        ),
        min_size=1,
    )
)  # fmt: skip
@example(["0", "-0.0", "1.", ".5", "9007199254740993", "1e23", "8.98846567431158e307", "2.2250738585072014e-308"])
def test_numbers_are_those_of_python(words):
    got, found = read_by_kernel(words)
    expected = np.array([float(word) for word in words])
    read = found == 1
    np.testing.assert_array_equal(got[read].view(np.uint64), expected[read].view(np.uint64))
    ordinary = np.array([1e-280 < abs(x) < 1e280 and len(word) < 20 for x, word in zip(expected, words)])
    assert read[ordinary].all(), "an ordinary number was left to Python"


@pytest.mark.parametrize("word", ["", "na", "N/A", "NaN", "null", "None", "<NA>", '"NA"', '""', "  ", "\t1 ", '" 2 "'])
def test_words_that_the_kernel_knows(word):
    got, found = read_by_kernel([word + "\r"])
    is_blank = not word.strip()  # a blank line is no row
    assert found.tolist() == [0 if is_blank else 1]
    if not is_blank:
        np.testing.assert_array_equal(got, [text._number_or_none(word.strip().strip('"').strip())])


@pytest.mark.parametrize(
    "word", ["x", "1x", "1e", "e5", ".", "-", "+-1", "1 2", "nanx", "naan", "--1", "0x10", '1"2"', "1_0"]
)
def test_words_that_are_left_to_python(word):
    assert read_by_kernel([word])[1].tolist() == [kernels.GIVEN_UP]


def outcome(read, *args):
    """Arrays, or the words of the refusal."""
    try:
        return [np.asarray(a) for a in read(*args)]
    except XGBoostError as error:
        return str(error)


def same(quick, slow):
    if isinstance(slow, str) or isinstance(quick, str):
        assert quick == slow
        return
    for mine, theirs in zip(quick, slow, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(st.text('0123456789..--+eE,,,"\n\n\r \tna/<>i_é', max_size=200), st.integers(1, 3), st.sampled_from(",; \t3"))
@example("1,2\r\n3,4\r\n", 2, ",")
@example("1,2\r3,4\n", 2, ",")
@example("\n \n1,\n,2\n", 2, ",")
def test_hostile_csv_is_read_as_line_by_line(noise, n_columns, delimiter):
    block = noise.encode() + b"\n"
    features = list(range(n_columns - 1))
    reader = text.CsvReader("x", delimiter, n_columns, features, [n_columns - 1], CTX)

    def by_line(block):
        rows = text._csv_rows(text._text_of(block, "x", 1), 1, n_columns, delimiter, "x")
        with np.errstate(over="ignore"):
            return rows[:, features].astype(np.float32), rows[:, n_columns - 1 :]

    quick = reader._read_quickly(block) if reader._is_plain else None
    if quick is not None:
        same(quick, outcome(by_line, block))


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(width=32, allow_infinity=False)), min_size=3, max_size=3), min_size=1
    )
)
def test_csv_says_what_was_written(rows):
    table = np.array(rows, np.float64).reshape(-1, 3)
    lines = "\n".join(",".join("" if v is None or np.isnan(v) else repr(v) for v in row) for row in rows)
    quick = text.CsvReader("x", ",", 3, [0, 2], [1], CTX)._read_quickly((lines + "\n").encode())
    if quick is not None:  # subnormal numbers are left to Python
        np.testing.assert_array_equal(quick[0], table[:, [0, 2]].astype(np.float32))
        np.testing.assert_array_equal(quick[1], table[:, [1]])


@given(
    st.lists(st.tuples(NUMBER, st.dictionaries(st.integers(0, 50), NUMBER, max_size=5)), min_size=1, max_size=20),
    st.sampled_from(["", ":w", " qid", ":w qid"]),
    st.sampled_from(["\n", "\r\n", " # 1:2\n", "\n\n#\n"]),
)
def test_libsvm_quick_and_slow_readers_agree(rows, extras, end):
    lines = []
    for number, (label, entries) in enumerate(rows):
        head = f"{label!r}" + (":2.5" if ":w" in extras else "") + (f" qid:{number}" if "qid" in extras else "")
        lines.append(" ".join([head, *(f"{index}:{value!r}" for index, value in entries.items())]))
    lines = end.join(lines) + "\n"
    quick = text._svm_rows_quickly(lines.encode(), CTX)
    if quick is not None:
        same(quick, text._svm_rows_by_line(lines, 1, "x"))


@given(st.text("01223.:::::-qid# \n\n\r\te+\x0b\x1fé", max_size=200))
@example("1 q")
@example("1 qid:")
@example("1 qid:1")
@example("1 2147483648:1")
@example("1:\n")
def test_hostile_libsvm_is_read_as_line_by_line(noise):
    quick = text._svm_rows_quickly(noise.encode() + b"\n", CTX)
    if quick is not None:
        same(quick, outcome(text._svm_rows_by_line, noise + "\n", 1, "x"))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_many_blocks_and_threads(tmp_path, n_threads, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(text, "_SMALL_BYTES", 50)
    table = np.random.default_rng(0).normal(size=(300, 4))
    lines = [",".join(map(repr, row.tolist())) for row in table]
    lines[::7] = [f"\n{line}" for line in lines[::7]]  # blank lines
    (tmp_path / "t.csv").write_text("\n\na,b,c,d\n" + "\n".join(lines))
    data = DMatrix(tmp_path / "t.csv", label="b", nthread=n_threads)
    np.testing.assert_array_equal(data.get_label(), table[:, 1].astype(np.float32))
    np.testing.assert_array_equal(data.get_data().toarray(), table[:, [0, 2, 3]].astype(np.float32))
    svm = "\n".join(f"{row[0]} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row.tolist())) for row in table)
    (tmp_path / "t.svm").write_text(svm)
    data = DMatrix(tmp_path / "t.svm", nthread=n_threads)
    np.testing.assert_array_equal(data.get_label(), table[:, 0].astype(np.float32))
    np.testing.assert_array_equal(data.get_data().toarray(), table.astype(np.float32))


def test_small_files_load_no_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "read_csv", None)
    (tmp_path / "t.csv").write_text("1,2\n3,4\n")
    assert DMatrix(tmp_path / "t.csv").num_row() == 2
