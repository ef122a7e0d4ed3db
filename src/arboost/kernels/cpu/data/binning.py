"""From float32 values to bins, in both layouts; the first scan of the data; sparse rows made dense or put in columns.

bits is float32 data seen as uint32; NaN is missing everywhere here. A value's bin is the number of its feature's
inner cuts (those without the sentinel) that are <= the value, found among the cuts' sort keys (see sketch.py):
table[f, cell] says how many cuts lie in cells below, where cell = (key - first_key[f]) >> shift[f], and
n_steps[f] halvings among the cuts of that cell do the rest, without a branch. Cuts are padded with KEY_MISSING.
"""

import numpy as np
from numba import int64, uint32, uint64

from arboost.kernels.cpu.data.counting import KEY_MISSING, LARGEST_FINITE, key_of_bits
from arboost.kernels.jit import kernel, scalar

ROW_BLOCK = 256  # rows whose values, and one feature's cuts, stay in L1 together


@kernel
def scan_values(bits, n_features, n_present, n_infinite, start, stop):
    """Counts per feature, in rows start..stop of the flat bits, values that are not NaN and that are +-inf (OUT)."""
    width = uint64(n_features)
    row = uint64(start)
    while row < uint64(stop):
        row_end = min(row + uint64(ROW_BLOCK), uint64(stop))
        largest = uint32(0)
        for j in range(row * width, row_end * width):
            largest = max(largest, bits[j] & uint32(0x7FFFFFFF))
        if largest < uint32(LARGEST_FINITE):  # the common case: a plain maximum runs at the speed of memory
            for f in range(width):
                n_present[f] += int64(row_end - row)
        else:
            for i in range(row, row_end):
                for f in range(width):
                    magnitude = bits[i * width + f] & uint32(0x7FFFFFFF)
                    n_present[f] += int64(magnitude <= uint32(LARGEST_FINITE))
                    n_infinite[f] += int64(magnitude == uint32(LARGEST_FINITE))
        row = row_end


@kernel
def densify_rows(row_ptr, columns, values, first_row, dense, start, stop):
    """dense[i] (OUT) = row first_row + i of a CSR matrix, NaN where nothing is stored."""
    for i in range(start, stop):
        for f in range(dense.shape[1]):
            dense[i, f] = np.float32(np.nan)
        for entry in range(row_ptr[first_row + i], row_ptr[first_row + i + 1]):
            dense[i, uint64(columns[entry])] = values[entry]


@kernel
def transpose_features(values, first_column, columns, first_row, start, stop):
    """columns[f, first_row + i] (OUT) = values[i, first_column + f] for features start..stop."""
    n_rows = uint64(values.shape[0])
    column = uint64(first_column)
    at = uint64(first_row)
    block = uint64(0)
    while block < n_rows:
        block_end = min(block + uint64(ROW_BLOCK), n_rows)
        for f in range(uint64(start), uint64(stop)):
            for i in range(block, block_end):
                columns[f, at + i] = values[i, column + f]
        block = block_end


@kernel
def fill_search_table(cut_keys, n_inner, first_key, shift, table, n_steps, start, stop):
    """Chooses first_key and shift, fills table and n_steps (all OUT) for features start..stop."""
    n_cells = int64(table.shape[1])
    for f in range(start, stop):
        n = int64(n_inner[f])
        first_key[f] = cut_keys[f, 0] if n > 0 else uint32(0)
        span = int64(cut_keys[f, n - 1]) - int64(first_key[f]) if n > 0 else int64(0)
        bits = int64(0)
        while (span >> bits) >= n_cells - 1:  # the last cell is for keys above every cut
            bits += 1
        shift[f] = bits
        found = int64(0)
        most = int64(1)
        for cell in range(n_cells):
            table[f, cell] = found
            before = found
            while found < n and (int64(cut_keys[f, found]) - int64(first_key[f])) >> bits == cell:
                found += 1
            most = max(most, found - before)
        steps = int64(0)
        while (int64(1) << steps) - 1 < most:
            steps += 1
        n_steps[f] = steps


@scalar
def search(keys, f, found, key, steps):
    """Number of keys[f] <= key: at least `found`, at most 2**steps - 1 more (rounded up to 2, 4, 8 or more steps).

    Without a branch on the key; `steps` is the same for a whole block, so its tests leave the loop when compiled.
    """
    if steps > 4:
        if steps > 8:  # only where pages have two-byte bins
            half = uint64(1) << uint64(steps)
            while half > uint64(256):
                half >>= uint64(1)
                found += half * uint64(keys[f, found + half - uint64(1)] <= key)
        found += uint64(128) * uint64(keys[f, found + uint64(127)] <= key)
        found += uint64(64) * uint64(keys[f, found + uint64(63)] <= key)
        found += uint64(32) * uint64(keys[f, found + uint64(31)] <= key)
        found += uint64(16) * uint64(keys[f, found + uint64(15)] <= key)
    if steps > 2:
        found += uint64(8) * uint64(keys[f, found + uint64(7)] <= key)
        found += uint64(4) * uint64(keys[f, found + uint64(3)] <= key)
    found += uint64(2) * uint64(keys[f, found + uint64(1)] <= key)
    return found + uint64(keys[f, found] <= key)


@scalar
def first_cell(key, table, first_key, shift):
    """Cell of the search table for a key."""
    cell = (key - first_key) >> shift if key > first_key else uint32(0)
    last = uint32(table.shape[1] - 1)
    return uint64(cell if cell < last else last)


@scalar
def bin_block(bits, cut_keys, table, first_key, shift, steps, missing_code, rows, columns, f, column, offset, block):
    """Bins of one feature in rows block[0] .. block[1]."""
    for i in range(block[0], block[1]):
        key = key_of_bits(bits[i, f])
        found = uint64(table[f, first_cell(key, table, first_key, shift)])
        found = search(cut_keys, f, found, key, steps)
        code = missing_code if key == uint32(KEY_MISSING) else found
        rows[offset + i, column] = code
        columns[column, offset + i] = code


@kernel
def bin_values(bits, cut_keys, table, first_key, shift, n_steps, missing_code, rows, columns, first_row, start, stop):
    """Bins of rows start..stop: rows[first_row + i, f] and columns[f, first_row + i] (OUT)."""
    at = uint64(first_row)
    code = uint64(missing_code)
    block_start = uint64(start)
    while block_start < uint64(stop):
        block = (block_start, min(block_start + uint64(ROW_BLOCK), uint64(stop)))
        for f in range(uint64(bits.shape[1])):
            first, down = first_key[f], uint32(shift[f])
            bin_block(bits, cut_keys, table, first, down, n_steps[f], code, rows, columns, f, f, at, block)
        block_start = block[1]


@kernel
def scan_entries(indices, bits, n_present, low, high, start, stop):
    """Counts entries start..stop that are not NaN per feature, and their smallest and largest key (all OUT)."""
    for entry in range(uint64(start), uint64(stop)):
        key = key_of_bits(bits[entry])
        if key != uint32(KEY_MISSING):
            f = uint64(indices[entry])
            n_present[f] += 1
            if key < low[f]:
                low[f] = key
            if key > high[f]:
                high[f] = key


@kernel
def count_entries(row_ptr, indices, values, number, counts, start, stop):
    """Counts in counts[number[f]] (OUT) the values of a CSR matrix's rows start..stop that are not NaN; -1: none."""
    for entry in range(uint64(row_ptr[start]), uint64(row_ptr[stop])):
        c = number[uint64(indices[entry])]
        if c >= 0:
            counts[uint64(c)] += int64(values[entry] == values[entry])


@kernel
def sort_entries(row_ptr, indices, values, number, places, column_rows, column_values, start, stop):
    """Moves those values to their columns (OUT), the next of column number[f] to places[number[f]] (IN/OUT).

    column_rows is empty where nobody wants the rows.
    """
    has_rows = column_rows.shape[0] > 0
    for i in range(uint64(start), uint64(stop)):
        for entry in range(uint64(row_ptr[i]), uint64(row_ptr[i + uint64(1)])):
            c = number[uint64(indices[entry])]
            value = values[entry]
            if c >= 0 and value == value:
                to = uint64(places[uint64(c)])
                places[uint64(c)] = to + uint64(1)
                column_values[to] = value
                if has_rows:
                    column_rows[to] = i


@kernel
def bin_columns(column_ptr, bits, cut_keys, table, first_key, shift, n_steps, bins, start, stop):
    """Bins (OUT) of values without NaN that lie column after column, for features start..stop."""
    for f in range(uint64(start), uint64(stop)):
        first, down, steps = first_key[f], uint32(shift[f]), n_steps[f]
        for j in range(uint64(column_ptr[f]), uint64(column_ptr[f + uint64(1)])):
            key = key_of_bits(bits[j])
            found = uint64(table[f, first_cell(key, table, first, down)])
            bins[j] = search(cut_keys, f, found, key, steps)
