"""Features that never differ from their unstored state in one row share a column: finding and filling such columns.

Stored bins lie feature after feature: rows[j] and bins[j], j = ptr[f] .. ptr[f + 1], rows ascending. gap[f] is the bin
that feature f's absence from its bundle stands for, NO_GAP for "missing". A bundled bin b != gap has the code
first[f] + b - (b > gap); code 0 says that every member is at its gap. A plain feature's code is its bin.
Where two members meet in a row after all, the one of the lower rank keeps its place, and the other is marked in
conflicts[f]: without all that are marked, the others never meet. meets: rank, code_ptr, owners, conflicts, where
owners[code_ptr[c] + code] is the feature that a column's code belongs to.
"""

from numba import int64, uint32, uint64

from arboost.kernels.cpu.data.binning import ROW_BLOCK, bin_block, first_cell, search
from arboost.kernels.cpu.data.counting import KEY_MISSING, key_of_bits
from arboost.kernels.jit import kernel, part, scalar

LANES = 16  # features looked at together
NO_GAP = 1 << 30
MAX_TRIES = 128  # bundles that one feature is compared with row by row
PLAIN = -2  # of `unstored`: the feature has a column of its own
SLOT_ROWS = 1 << 14  # rows whose slots are written while they stay in cache


@part
def is_free(rows, bins, gap, used, start, stop):
    """Whether no row of these stored bins is marked in the bit map `used`."""
    for j in range(start, stop):
        i = uint64(rows[j])
        if (used[i >> uint64(6)] >> (i & uint64(63))) & uint64(1) and bins[j] != gap:
            return False
    return True


@part
def mark_rows(rows, bins, gap, used, start, stop):
    """Marks the rows of these stored bins."""
    for j in range(start, stop):
        if bins[j] != gap:
            i = uint64(rows[j])
            used[i >> uint64(6)] |= uint64(1) << (i & uint64(63))


@kernel
def find_bundles(ptr, rows, bins, order, gap, n_codes, n_stored, max_codes, room, used, sizes, bundle_of):
    """Puts each feature of `order` into the first bundle that it shares no row with, or opens one: bundle_of (OUT).

    used (n_bundles, n_row_words) and sizes (2, n_bundles), the codes and rows of each bundle, are zeros. The bundles of
    the features beside it are tried first: encoders write the columns of one group side by side. -1 (as before the
    call) stays where nothing fits and no bundle is left.
    """
    n_open = int64(0)
    for place in range(order.shape[0]):
        f = int64(order[place])
        start, stop = uint64(ptr[f]), uint64(ptr[f + 1])
        n_tries = int64(0)
        found = int64(-1)
        for attempt in range(-2, n_open):
            b = int64(attempt)
            if attempt < 0:
                beside = f - 1 if attempt == -2 else f + 1
                b = int64(bundle_of[beside]) if 0 <= beside < bundle_of.shape[0] else int64(-1)
            if b < 0 or sizes[0, b] + n_codes[f] > max_codes or sizes[1, b] + n_stored[f] > room:
                continue
            if is_free(rows, bins, gap[f], used[b], start, stop):
                found = b
                break
            n_tries += 1
            if n_tries == MAX_TRIES:
                break
        if found < 0 and n_open < used.shape[0]:
            found = n_open
            sizes[0, found] = 1
            n_open += 1
        if found >= 0:
            mark_rows(rows, bins, gap[f], used[found], start, stop)
            sizes[0, found] += n_codes[f]
            sizes[1, found] += n_stored[f]
            bundle_of[f] = found


@scalar
def bundled_code(code, first, gap):
    """Code of a stored bin in its bundle."""
    return first + code - uint64(code > gap)


@part
def takes_place(f, c, held, meets):
    """Whether feature f may take its place from the one that has it; marks who must leave."""
    rank, code_ptr, owners, conflicts = meets
    other = owners[uint64(code_ptr[c]) + uint64(held)]
    is_first = rank[f] < rank[uint64(other)]
    conflicts[uint64(other) if is_first else f] = 1
    return is_first


@kernel
def fill_rows(row_ptr, indices, bits, tables, layout, meets, empty, rows, columns, start, stop):
    """Codes of a CSR matrix's rows start..stop, in both layouts (OUT; rows are zeros before).

    layout[f]: column (-1 for features that have none), first, gap, row of the tables (-1 where there is one bin only).
    tables: cut_keys, table, first_key, shift, n_steps. empty[c]: what is in a column where nothing is stored.
    """
    cut_keys, table, first_key, shift, n_steps = tables
    n_columns = uint64(columns.shape[0])
    is_filled = False
    for c in range(n_columns):
        is_filled |= empty[c] != 0
    block = uint64(start)
    while block < uint64(stop):
        block_end = min(block + uint64(ROW_BLOCK), uint64(stop))
        for i in range(block, block_end):
            if is_filled:
                for c in range(n_columns):
                    rows[i, c] = empty[c]
            for entry in range(uint64(row_ptr[i]), uint64(row_ptr[i + uint64(1)])):
                f = uint64(indices[entry])
                key = key_of_bits(bits[entry])
                if layout[f, 0] < 0 or key == uint32(KEY_MISSING):
                    continue
                c, first, gap, s = uint64(layout[f, 0]), uint64(layout[f, 1]), uint64(layout[f, 2]), layout[f, 3]
                code = uint64(0)
                if s >= 0:
                    t = uint64(s)
                    code = uint64(table[t, first_cell(key, table, first_key[t], uint32(shift[t]))])
                    code = search(cut_keys, t, code, key, n_steps[t])
                if code == gap:
                    continue
                held = rows[i, c]
                if held == empty[c] or takes_place(f, c, held, meets):
                    rows[i, c] = bundled_code(code, first, gap)
        for c in range(n_columns):
            for i in range(block, block_end):
                columns[c, i] = rows[i, c]
        block = block_end


@kernel
def copy_to_rows(columns, rows, start, stop):
    """rows[i, c] (OUT) = columns[c, i] for i = start .. stop."""
    block = uint64(start)
    while block < uint64(stop):
        block_end = min(block + uint64(ROW_BLOCK), uint64(stop))
        for c in range(uint64(columns.shape[0])):
            for i in range(block, block_end):
                rows[i, c] = columns[c, i]
        block = block_end


@kernel
def bin_bundled(bits, tables, layout, meets, missing_code, rows, columns, first_row, start, stop):
    """`binning.bin_values` into columns that features share: both OUT, zeros before where a column is a bundle.

    tables: cut_keys, table, first_key, shift, n_steps. layout: column, first, gap, low, width, plain, runs. A key at
    the gap is one of the `width` keys from `low` on. plain: features with a column of their own; runs (n, 2): ranges
    of the others.
    """
    cut_keys, table, first_key, shift, n_steps = tables
    column, first, gap, low, width, plain, runs = layout
    at = uint64(first_row)
    missing = uint64(missing_code)
    block_start = uint64(start)
    while block_start < uint64(stop):
        block = (block_start, min(block_start + uint64(ROW_BLOCK), uint64(stop)))
        for p in range(uint64(plain.shape[0])):
            f = uint64(plain[p])
            down, c = uint32(shift[f]), uint64(column[f])
            bin_block(bits, cut_keys, table, first_key[f], down, n_steps[f], missing, rows, columns, f, c, at, block)
        for i in range(block[0], block[1]):
            for r in range(uint64(runs.shape[0])):
                f, run_end = uint64(runs[r, 0]), uint64(runs[r, 1])
                while f < run_end:
                    end = min(f + uint64(LANES), run_end)
                    if end == f + uint64(LANES) and not any_off(bits, low, width, i, f):
                        f = end
                        continue
                    while f < end:
                        key = key_of_bits(bits[i, f])
                        if uint32(key - low[f]) >= width[f]:
                            found = uint64(table[f, first_cell(key, table, first_key[f], uint32(shift[f]))])
                            found = search(cut_keys, f, found, key, n_steps[f])
                            c = uint64(column[f])
                            held = columns[c, at + i]
                            if held == 0 or takes_place(f, c, held, meets):
                                code = bundled_code(found, uint64(first[f]), uint64(gap[f]))
                                rows[at + i, c] = code
                                columns[c, at + i] = code
                        f += uint64(1)
        block_start = block[1]


@scalar
def any_off(bits, low, width, i, f):
    """Whether any of LANES features from f on is not at its gap in row i; no branch, so that lanes run together."""
    n_off = uint32(0)
    for k in range(uint64(LANES)):
        n_off += uint32(uint32(key_of_bits(bits[i, f + k]) - low[f + k]) >= width[f + k])
    return n_off != uint32(0)


@kernel
def find_most_frequent(columns, counts, most, start, stop):
    """most[f] (OUT) = the most frequent code of columns[f], the lowest of several, f = start .. stop.

    counts (n_codes,) are zeros, before and after.
    """
    for f in range(uint64(start), uint64(stop)):
        for i in range(uint64(columns.shape[1])):
            counts[uint64(columns[f, i])] += 1
        best = int64(0)
        for code in range(uint64(counts.shape[0])):
            if counts[code] > best:
                best = counts[code]
                most[f] = code
            counts[code] = 0


@kernel
def count_slots(row_ptr, indices, values, is_sparse, counts, start, stop):
    """counts[i] (OUT) = values of row i that are not NaN and whose feature is sparse."""
    for i in range(uint64(start), uint64(stop)):
        n = int64(0)
        for entry in range(uint64(row_ptr[i]), uint64(row_ptr[i + uint64(1)])):
            n += int64(is_sparse[uint64(indices[entry])] != 0 and values[entry] == values[entry])
        counts[i] = n


@kernel
def fill_slots(ptr, rows, bins, slot_ptr, at, ends, slots, start, stop):
    """Slots of rows start..stop (OUT): the next of row i goes to ends[i] (IN/OUT); at (n_sparse,) is scratch."""
    n_features = uint64(at.shape[0])
    for s in range(n_features):
        low, high = uint64(ptr[s]), uint64(ptr[s + uint64(1)])
        while low < high:
            middle = (low + high) >> uint64(1)
            if rows[middle] < start:
                low = middle + uint64(1)
            else:
                high = middle
        at[s] = low
    block = uint64(start)
    while block < uint64(stop):
        block_end = min(block + uint64(SLOT_ROWS), uint64(stop))
        for s in range(n_features):
            j, stop_j, slot = uint64(at[s]), uint64(ptr[s + uint64(1)]), uint64(slot_ptr[s])
            while j < stop_j and uint64(rows[j]) < block_end:
                i = uint64(rows[j])
                slots[uint64(ends[i])] = slot + uint64(bins[j])
                ends[i] += 1
                j += uint64(1)
            at[s] = j
        block = block_end


@kernel
def decode_column(codes, bin_of_code, out, start, stop):
    """out[i] (OUT) = bin_of_code[codes[i]] for i = start .. stop."""
    for i in range(uint64(start), uint64(stop)):
        out[i] = bin_of_code[uint64(codes[i])]
