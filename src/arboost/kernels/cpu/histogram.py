"""Gradient histograms by integer addition (kernels.md, 1-3; the paper's section 4.2 for the prefetch).

A histogram buffer is hist[b] = (2, n_slots) int64: plane 0 sums gradients, plane 1 hessians. Feature f owns slots
slot_ptr[f] : slot_ptr[f] + n_bins[f], and one more for its missing values if it has any. While rows are added,
sums live in a small accumulator: 256 slots a feature for one-byte bins, so that eight features are one word of
bins and eight constant offsets; the flush moves real slots only and leaves the accumulator zero.

`values` is one int64 a row: gradient and hessian packed as (g << shift) + h, or with shift 0 just one of the two.
"""

from numba import int64, uint64

from arboost.kernels.dtypes import BLOCK_WORDS, MISSING_U8, STRIDE
from arboost.kernels.intrinsics import prefetch_item, prefetch_row
from arboost.kernels.jit import kernel, scalar

AHEAD = uint64(16)  # rows to prefetch ahead: about one memory latency of work
_LOW = uint64(255)


@scalar
def _add_row(words, r, first_word, last_word, v, out):
    """Add `v` to row r's slot of every feature in a block of words."""
    o = uint64(0)
    for k in range(first_word, last_word):
        w = words[r, k]
        out[o + (w & _LOW)] += v
        out[o + uint64(256) + ((w >> uint64(8)) & _LOW)] += v
        out[o + uint64(512) + ((w >> uint64(16)) & _LOW)] += v
        out[o + uint64(768) + ((w >> uint64(24)) & _LOW)] += v
        out[o + uint64(1024) + ((w >> uint64(32)) & _LOW)] += v
        out[o + uint64(1280) + ((w >> uint64(40)) & _LOW)] += v
        out[o + uint64(1536) + ((w >> uint64(48)) & _LOW)] += v
        out[o + uint64(1792) + (w >> uint64(56))] += v
        o += uint64(8 * STRIDE)


@scalar
def _add_rows(words, rows, values, start, stop, first_word, last_word, out):
    """Add rows[start:stop] to the accumulator; an empty `rows` means the rows are start..stop themselves."""
    k0, k1 = uint64(first_word), uint64(last_word)
    if rows.shape[0] == 0:
        for i in range(uint64(start), uint64(stop)):
            _add_row(words, i, k0, k1, values[i], out)
        return
    last = uint64(stop - 1)
    for i in range(uint64(start), uint64(stop)):
        ahead = uint64(rows[min(i + AHEAD, last)])
        prefetch_row(words, ahead, k0)
        prefetch_item(values, ahead)
        r = uint64(rows[i])
        _add_row(words, r, k0, k1, values[r], out)


@scalar
def _flush_feature(acc, base, n, slot, shift, sign, hist):
    """Move `n` accumulator slots from `base` into the planes at `slot`, leaving zeros."""
    if shift == 0:
        for j in range(uint64(n)):
            hist[slot + j] += sign * acc[base + j]
            acc[base + j] = 0
        return
    plane = uint64(hist.shape[0] // 2)
    mask = (int64(1) << shift) - 1
    for j in range(uint64(n)):
        v = acc[base + j]
        hist[slot + j] += sign * (v >> shift)
        hist[plane + slot + j] += sign * (v & mask)
        acc[base + j] = 0


@scalar
def _flush(acc, first_word, last_word, slot_ptr, n_bins, shift, sign, hist):
    """Move a block of words' real slots, and their missing slots, into the planes of one buffer."""
    first, last = first_word * 8, min(last_word * 8, n_bins.shape[0])
    for f in range(first, last):
        base, slot, n = uint64((f - first) * STRIDE), uint64(slot_ptr[f]), n_bins[f]
        _flush_feature(acc, base, n, slot, shift, sign, hist)
        if slot_ptr[f + 1] - slot_ptr[f] > n:
            _flush_feature(acc, base + uint64(MISSING_U8), 1, slot + uint64(n), shift, sign, hist)
    for f in range(last, last_word * 8):  # padding bytes are bin 0 of features that do not exist
        acc[uint64((f - first) * STRIDE)] = 0


@scalar
def _clear(out, slot_ptr, n_bins, first_word, last_word, both_planes):
    """Zero a block of words' slots in one plane, or in both."""
    plane = slot_ptr[slot_ptr.shape[0] - 1]
    lo, hi = slot_ptr[min(first_word * 8, n_bins.shape[0])], slot_ptr[min(last_word * 8, n_bins.shape[0])]
    out[lo:hi] = 0
    if both_planes:
        out[plane + lo : plane + hi] = 0


@kernel
def build_histograms(
    words, rows, values, packing, builds, slot_ptr, n_bins, acc, partial, hist, word_block, start, stop
):
    """Sum builds' rows number start..stop (counted over all builds) for one block of words.

    `packing` = [shift, plane, rows that can be summed packed before a half overflows].
    acc (64 * 256,) is zero before and after.
    hist (n_buffers, 2 * n_slots) OUT: a build inside the range goes to its own buffer (sign 1: set, -1: subtracted);
    partial (2, 2 * n_slots) OUT: a build that the range cuts is set here, at 0 if its head is missing, else at 1.
    """
    first_word, last_word = word_block * BLOCK_WORDS, min((word_block + 1) * BLOCK_WORDS, words.shape[1])
    shift, limit = packing[0], packing[2]
    plane = packing[1] * slot_ptr[slot_ptr.shape[0] - 1]
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        lo, hi = max(start - build.first, 0), min(stop - build.first, n)
        if lo >= hi:
            continue
        whole = lo == 0 and hi == n
        out = hist[build.hist][plane:] if whole else partial[1 if lo == 0 else 0][plane:]
        sign = int64(build.sign) if whole else int64(1)
        if sign > 0:
            _clear(out, slot_ptr, n_bins, first_word, last_word, shift > 0)
        for block in range(lo, hi, limit):
            block_stop = min(hi, block + limit)
            _add_rows(words, rows, values, build.start + block, build.start + block_stop, first_word, last_word, acc)
            _flush(acc, first_word, last_word, slot_ptr, n_bins, shift, sign, out)


@kernel
def build_histograms_u16(
    bins, rows, values, packing, builds, slot_ptr, n_bins, partial, hist, feature_block, start, stop
):
    """`build_histograms` for two-byte bins: straight into the slots, 64 features a block.

    The missing code is above every bin, so clamping a bin to n_bins[f] sends it to the missing slot.
    """
    first, last = feature_block * 64, min((feature_block + 1) * 64, n_bins.shape[0])
    n_slots = slot_ptr[slot_ptr.shape[0] - 1]
    shift = packing[0]
    plane = packing[1] * n_slots
    mask = (int64(1) << shift) - 1
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        lo, hi = max(start - build.first, 0), min(stop - build.first, n)
        if lo >= hi:
            continue
        whole = lo == 0 and hi == n
        out = hist[build.hist][plane:] if whole else partial[1 if lo == 0 else 0][plane:]
        sign = int64(build.sign) if whole else int64(1)
        if sign > 0:
            _clear(out, slot_ptr, n_bins, first // 8, (last + 7) // 8, shift > 0)
        for i in range(build.start + lo, build.start + hi):
            r = i if rows.shape[0] == 0 else int64(rows[i])
            v = sign * values[r]
            if shift > 0:
                g, h = values[r] >> shift, values[r] & mask
                v = sign * g
            for f in range(first, last):
                slot = slot_ptr[f] + min(int64(bins[r, f]), int64(n_bins[f]))
                out[slot] += v
                if shift > 0:
                    out[n_slots + slot] += sign * h


@kernel
def merge_histograms(builds, bounds, partial, subtracts, hist, start, stop):
    """Finish hist[:, start:stop]: add up the builds that threads shared, then take small children from parents.

    bounds (n_spans + 1,): where the row spans of `build_histograms` began; partial (n_spans, 2, 2 * n_slots).
    """
    n_spans = bounds.shape[0] - 1
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        set_first = build.sign > 0
        out = hist[build.hist]
        sign = int64(build.sign)
        for t in range(n_spans):
            lo, hi = max(bounds[t] - build.first, 0), min(bounds[t + 1] - build.first, n)
            if lo >= hi or (lo == 0 and hi == n):
                continue
            part = partial[t, 1 if lo == 0 else 0]
            if set_first:
                for j in range(uint64(start), uint64(stop)):
                    out[j] = part[j]
                set_first = False
            else:
                for j in range(uint64(start), uint64(stop)):
                    out[j] += sign * part[j]
    for s in range(subtracts.shape[0]):
        large, small = hist[subtracts[s].large], hist[subtracts[s].small]
        for j in range(uint64(start), uint64(stop)):
            large[j] -= small[j]
