"""Numbers in text: spans of lines of CSV and libsvm files become arrays.

A text is a uint8 array of whole lines, each ending in a line feed, cut into spans at line ends. Whatever is unusual
makes a kernel give up its span (found = -1): the caller then reads those lines with Python, which also words the error.
Numbers are rounded as Python's float() rounds them: Lemire, "Number Parsing at a Gigabyte per Second" (2021).
"""

import functools

import numpy as np
from numba import float32, int64, uint64

from arboost.kernels.elementary import float_of
from arboost.kernels.intrinsics import count_leading_zeros, multiply_high
from arboost.kernels.jit import kernel, scalar

GIVEN_UP = -1
# Exponents of ten for which a product with any uint64 is a normal double.
_FIRST_POWER, _LAST_POWER = -307, 288

_FEED, _RETURN, _TAB, _SPACE = ord("\n"), ord("\r"), ord("\t"), ord(" ")
_QUOTE, _PLUS, _MINUS, _POINT, _ZERO, _COLON, _HASH = (ord(c) for c in '"+-.0:#')
_LOWER_E, _LOWER_N, _LESS = ord("e"), ord("n"), ord("<")
_LOWER = 0x20  # the bit that makes a letter small
_MOST_DIGITS = 19  # of a number below 2^64
_MOST_EXPONENT = 1 << 20  # larger ones all give up


def _word(text: str) -> int:
    """The bytes of a short word as one integer."""
    return int.from_bytes(text.encode(), "big")


_NA, _N_A, _NAN, _NULL, _NONE, _ANGLE_NA = (_word(w) for w in ("na", "n/a", "nan", "null", "none", "<na>"))


@functools.cache
def powers_of_ten() -> np.ndarray:
    """(n, 2) uint64: the upper 128 bits of 5^q, or of 2^k / 5^-q, for the exponents in use.

    Rounded down, but up for -27 <= q < 0, where w / 5^-q may be a whole number, which must not come out below itself.
    """
    table = np.empty((_LAST_POWER - _FIRST_POWER + 1, 2), np.uint64)
    for i, q in enumerate(range(_FIRST_POWER, _LAST_POWER + 1)):
        if q < 0:
            power = 5**-q
            bits = (1 << (power.bit_length() + 127)) // power + (q >= -27)
        else:
            bits = 5**q << 128
        bits >>= bits.bit_length() - 128
        table[i] = bits >> 64, bits & (2**64 - 1)
    return table


@scalar
def _double_of(w, q, powers):
    """(w * 10^q rounded to nearest even, whether that is certain) for w > 0 and a power of the table."""
    n_zeros = count_leading_zeros(w)
    w = w << n_zeros
    i = uint64(q - _FIRST_POWER)
    high, low = multiply_high(w, powers[i, 0]), w * powers[i, 0]
    if high & uint64(0x1FF) == uint64(0x1FF):  # the bits that were left out may carry
        more = multiply_high(w, powers[i, 1])
        low += more
        if low < more:
            high += uint64(1)
    certain = low != uint64(0xFFFFFFFFFFFFFFFF) or -27 <= q <= 55
    upper = high >> uint64(63)
    shift = upper + uint64(9)
    m = high >> shift  # 53 bits and one to round by
    if low <= uint64(1) and -4 <= q <= 23 and m & uint64(3) == uint64(1) and m << shift == high:
        m &= ~uint64(1)  # half way between two doubles: to the even one
    m = (m + (m & uint64(1))) >> uint64(1)
    exponent = ((217706 * q) >> 16) + 63 + 1023 + int64(upper) - int64(n_zeros)
    if m >> uint64(53):
        m >>= uint64(1)
        exponent += 1
    bits = (m & uint64(0xFFFFFFFFFFFFF)) | (uint64(exponent) << uint64(52))
    return float_of(int64(bits)), certain


@scalar
def _read_digits(text, p, w, n_digits):
    """(position after the digits at p, w with them appended, significant digits in w, digits that did not fit)."""
    n_dropped = int64(0)
    digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    while digit < uint64(10):
        if n_digits < _MOST_DIGITS:
            w = w * uint64(10) + digit
            n_digits += int64(w > uint64(0))
        else:
            n_dropped += 1
        p += 1
        digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    return p, w, n_digits, n_dropped


@scalar
def _read_exponent(text, p):
    """(position after the exponent whose first digit or sign is at p, its value); position GIVEN_UP if it has none."""
    sign = text[uint64(p)]
    if sign == _MINUS or sign == _PLUS:
        p += 1
    first, exponent = p, int64(0)
    digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    while digit < uint64(10):
        exponent = min(exponent * 10 + int64(digit), int64(_MOST_EXPONENT))
        p += 1
        digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    return (int64(GIVEN_UP) if p == first else p), (-exponent if sign == _MINUS else exponent)


@scalar
def _read_number(text, p, powers):
    """(number, position after it), position GIVEN_UP where it is no plain number or one that is hard to round."""
    is_negative = text[uint64(p)] == _MINUS
    if is_negative or text[uint64(p)] == _PLUS:
        p += 1
    start = p
    p, w, n_digits, n_dropped = _read_digits(text, p, uint64(0), int64(0))
    q, is_cut, has_digits = n_dropped, n_dropped > 0, p > start
    if text[uint64(p)] == _POINT:
        start = p + 1
        p, w, n_digits, n_dropped = _read_digits(text, start, w, n_digits)
        q -= p - start - n_dropped
        is_cut |= n_dropped > 0
        has_digits |= p > start
    if not has_digits:
        return 0.0, int64(GIVEN_UP)
    if text[uint64(p)] | _LOWER == _LOWER_E:
        p, exponent = _read_exponent(text, p + 1)
        q += exponent
    value = 0.0
    if q == 0 and n_digits < 16:  # a whole number below 2^53
        value = np.float64(w)
    elif w > uint64(0):
        if q < _FIRST_POWER or q > _LAST_POWER:
            return 0.0, int64(GIVEN_UP)
        value, certain = _double_of(w, q, powers)
        if is_cut:  # the number lies between w and w + 1
            above, also_certain = _double_of(w + uint64(1), q, powers)
            certain = certain and also_certain and above == value
        if not certain:
            return 0.0, int64(GIVEN_UP)
    return (-value if is_negative else value), p


@scalar
def _read_missing(text, p):
    """Position after a word that means missing; GIVEN_UP if it is another one."""
    word = uint64(0)
    for _ in range(5):
        c = text[uint64(p)]
        is_letter = uint64(c | _LOWER) - uint64(ord("a")) < uint64(26)
        if not is_letter and c != ord("/") and c != _LESS and c != ord(">"):
            break
        word = (word << uint64(8)) | uint64(c | _LOWER)  # the marks have that bit already
        p += 1
    is_known = word == _NA or word == _N_A or word == _NAN or word == _NULL or word == _NONE or word == _ANGLE_NA
    return p if is_known else int64(GIVEN_UP)


@scalar
def _is_line_end(text, p):
    c = text[uint64(p)]
    return c == _FEED or (c == _RETURN and text[uint64(p + 1)] == _FEED)


@scalar
def _skip_blanks(text, p, mark):
    """Position of the first byte from p on that is no blank, or is the delimiter."""
    while (text[uint64(p)] == _SPACE or text[uint64(p)] == _TAB) and text[uint64(p)] != mark:
        p += 1
    return p


@scalar
def _read_field(text, p, mark, powers):
    """(value, position of the delimiter or line end after it); NaN for an empty field or a word for missing."""
    is_quoted = text[uint64(p)] == _QUOTE
    p = _skip_blanks(text, p + int64(is_quoted), mark)
    c, value = text[uint64(p)], np.nan
    is_empty = c == _QUOTE if is_quoted else c == mark or _is_line_end(text, p)
    if not is_empty:
        if c | _LOWER == _LOWER_N or c == _LESS:
            p = _read_missing(text, p)
        else:
            value, p = _read_number(text, p, powers)
        if p < 0:
            return value, p
        p = _skip_blanks(text, p, mark)
    if is_quoted:
        if text[uint64(p)] != _QUOTE:
            return value, int64(GIVEN_UP)
        p += 1
    return value, (p if text[uint64(p)] == mark or _is_line_end(text, p) else int64(GIVEN_UP))


@scalar
def _read_csv_span(text, first, last, mark, powers, slots, row, features, fields):
    """Rows of the lines text[first:last], written from `row` on; how many, or GIVEN_UP."""
    p, first_row, n_columns = int64(first), int64(row), int64(len(slots))
    row = first_row
    while p < last:
        blank = _skip_blanks(text, p, mark)
        if _is_line_end(text, blank):
            p = blank + (int64(2) if text[uint64(blank)] == _RETURN else int64(1))
            continue
        for column in range(n_columns):
            value, p = _read_field(text, p, mark, powers)
            if p < 0 or (text[uint64(p)] == mark) != (column < n_columns - 1):
                return int64(GIVEN_UP)
            slot = slots[uint64(column)]
            if slot >= 0:
                features[uint64(row), uint64(slot)] = float32(value)
            else:
                fields[uint64(row), uint64(~slot)] = value
            p += 1
        p += int64(text[uint64(p - 1)] == _RETURN)
        row += 1
    return row - first_row


@kernel
def read_csv(text, powers, mark, slots, span_ptr, row_ptr, features, fields, found, start, stop):
    """Rows of spans start..stop of a text whose fields are parted by the byte `mark`.

    slots[c] >= 0: column c is features[:, slot], else fields[:, ~slot]. Span s has bytes span_ptr[s]:span_ptr[s + 1]
    and writes its rows (no blank lines) from row_ptr[s] on.

    OUT features (rows, .) float32, fields (rows, .) float64, found[s] = rows of span s, or GIVEN_UP.
    """
    for s in range(start, stop):
        found[s] = _read_csv_span(
            text, span_ptr[s], span_ptr[s + 1], mark, powers, slots, row_ptr[s], features, fields
        )  # fmt: skip


@kernel
def count_bytes(text, span_ptr, byte, counts, start, stop):
    """OUT counts[s] = how often `byte` occurs in span s."""
    for s in range(start, stop):
        n = int64(0)
        for i in range(uint64(span_ptr[s]), uint64(span_ptr[s + 1])):
            n += int64(text[i] == byte)
        counts[s] = n


# ---- libsvm ----


@scalar
def _is_space(c):
    return c == _SPACE or (_TAB <= c <= _RETURN and c != _FEED)


@scalar
def _ends_word(c):
    return c == _FEED or c == _HASH or _is_space(c)


@scalar
def _read_index(text, p):
    """(whole number, position of the byte after it); GIVEN_UP without digits or above int32."""
    start, index = p, int64(0)
    digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    while digit < uint64(10) and index <= 0x7FFFFFFF:
        index = index * 10 + int64(digit)
        p += 1
        digit = uint64(text[uint64(p)]) - uint64(_ZERO)
    return index, (int64(GIVEN_UP) if p == start or index > 0x7FFFFFFF else p)


@scalar
def _read_head(text, p, powers, head, qid, row):
    """Label, weight and qid of a row, NaN and -1 for none; the position after them, or GIVEN_UP."""
    head[row, 1], qid[row] = np.nan, -1
    head[row, 0], p = _read_number(text, p, powers)
    if p >= 0 and text[uint64(p)] == _COLON:
        head[row, 1], p = _read_number(text, p + 1, powers)
    if p < 0 or not _ends_word(text[uint64(p)]):
        return int64(GIVEN_UP)
    while _is_space(text[uint64(p)]):
        p += 1
    # A byte that differs ends the comparison, and every text ends in a line feed: nothing is read past its end.
    if text[uint64(p)] == ord("q") and text[uint64(p + 1)] == ord("i") and text[uint64(p + 2)] == ord("d"):
        if text[uint64(p + 3)] != _COLON:
            return int64(GIVEN_UP)
        qid[row], p = _read_index(text, p + 4)
        if p >= 0 and not _ends_word(text[uint64(p)]):
            return int64(GIVEN_UP)
    return p


@scalar
def _read_svm_span(text, first, last, powers, rows, entry, head, qid, counts, indices, values):
    """Rows and entries of the lines text[first:last], written from `rows` and `entry` on; how many, or GIVEN_UP."""
    p, row, first_entry = int64(first), uint64(rows), int64(entry)
    entry = first_entry
    while p < last:
        while _is_space(text[uint64(p)]):
            p += 1
        c = text[uint64(p)]
        if c != _FEED and c != _HASH:
            p = _read_head(text, p, powers, head, qid, row)
            if p < 0:
                return int64(GIVEN_UP), int64(0)
            before = entry
            while True:
                while _is_space(text[uint64(p)]):
                    p += 1
                c = text[uint64(p)]
                if c == _FEED or c == _HASH:
                    break
                index, p = _read_index(text, p)
                if p < 0 or text[uint64(p)] != _COLON:
                    return int64(GIVEN_UP), int64(0)
                value, p = _read_number(text, p + 1, powers)
                if p < 0 or not _ends_word(text[uint64(p)]):
                    return int64(GIVEN_UP), int64(0)
                indices[uint64(entry)], values[uint64(entry)] = index, float32(value)
                entry += 1
            counts[row] = entry - before
            row += uint64(1)
        while text[uint64(p)] != _FEED:
            p += 1
        p += 1
    return int64(row) - int64(rows), entry - first_entry


@kernel
def read_svm(text, powers, span_ptr, first, head, qid, counts, indices, values, found, start, stop):
    """Rows and entries of spans start..stop of a libsvm text, written from row first[0, s] and entry first[1, s] on.

    OUT head (rows, 2) float64 label and weight (NaN for none), qid (-1 for none), counts of entries per row, indices
    int32 and values float32 of the entries, found[:, s] = rows and entries of span s, or GIVEN_UP.
    """
    for s in range(start, stop):
        found[0, s], found[1, s] = _read_svm_span(
            text, span_ptr[s], span_ptr[s + 1], powers, first[0, s], first[1, s], head, qid, counts, indices, values
        )
