"""Gradient histograms by integer addition (kernels.md, 1-3; the paper's section 4.2 for the prefetch).

A histogram buffer is hist[b] = (2, n_slots) int64: plane 0 sums gradients, plane 1 hessians. Feature f owns slots
slot_ptr[f] : slot_ptr[f] + n_bins[f], and one more for its missing values if it has any. While rows are added,
sums live in a small accumulator: STRIDE slots a feature for one-byte bins, so that eight features are one word of
bins and eight constant offsets; the flush moves real slots only and leaves the accumulator zero.

`values` is one int64 a row: gradient and hessian packed as (g << shift) + h, or with shift 0 just one of the two.
"""

from numba import int64, types, uint64

from arboost.kernels.cpu.grow.arrays import origin_of
from arboost.kernels.dtypes import BLOCK_FEATURES, MISSING_U8, STRIDE
from arboost.kernels.intrinsics import prefetch_item, prefetch_row
from arboost.kernels.jit import forms_of, part, section
from arboost.kernels.scalar import clip

AHEAD = uint64(16)  # rows to prefetch ahead: about one memory latency of work
_LOW = uint64(255)


@part
def _add_four(w, o, v, acc):
    """Add `v` to the slots of the four lowest bytes of a word of bins, whose features begin at slot o."""
    acc[o + (w & _LOW)] += v
    acc[o + uint64(STRIDE) + ((w >> uint64(8)) & _LOW)] += v
    acc[o + uint64(2 * STRIDE) + ((w >> uint64(16)) & _LOW)] += v
    acc[o + uint64(3 * STRIDE) + ((w >> uint64(24)) & _LOW)] += v


@part
def _add_row(words, r, first, last, half, v, acc):
    """Add `v` to row r's slot of every feature in words first..last, and in half of the word after if `half`."""
    o = uint64(0)
    for k in range(first, last):
        w = words[r, k]
        _add_four(w, o, v, acc)
        _add_four(w >> uint64(32), o + uint64(4 * STRIDE), v, acc)
        o += uint64(8 * STRIDE)
    if half:
        _add_four(words[r, last], o, v, acc)


@part
def _add_rows(words, origin, ids, in_order, values, start, stop, first_feature, last_feature, acc):
    """Add ids[start:stop], or if they are `in_order` start..stop themselves; words[0] is row `origin`."""
    n_words, rest = (last_feature - first_feature) // 8, (last_feature - first_feature) % 8
    half = 0 < rest <= 4
    k0 = uint64(first_feature // 8)
    k1 = k0 + uint64(n_words + (rest > 4))
    if in_order:
        for i in range(uint64(start), uint64(stop)):
            _add_row(words, i - origin, k0, k1, half, values[i], acc)
        return
    last = uint64(stop - 1)
    for i in range(uint64(start), uint64(stop)):
        ahead = uint64(ids[i + AHEAD if i + AHEAD < last else last])
        prefetch_row(words, ahead - origin, k0)
        prefetch_item(values, ahead)
        r = uint64(ids[i])
        _add_row(words, r - origin, k0, k1, half, values[r], acc)


@part
def _flush_feature(acc, base, n, slot, shift, sign, fresh, out):
    """Move `n` accumulator slots from `base` into the planes at `slot`, leaving zeros; `fresh`: set, do not add."""
    plane = uint64(out.shape[0] // 2)
    mask = (int64(1) << shift) - 1
    if shift == 0:
        for j in range(uint64(n)):
            out[slot + j] = sign * acc[base + j] + (0 if fresh else out[slot + j])
            acc[base + j] = 0
    elif fresh:
        for j in range(uint64(n)):
            v = acc[base + j]
            out[slot + j] = v >> shift
            out[plane + slot + j] = v & mask
            acc[base + j] = 0
    else:
        for j in range(uint64(n)):
            v = acc[base + j]
            out[slot + j] += sign * (v >> shift)
            out[plane + slot + j] += sign * (v & mask)
            acc[base + j] = 0


@part
def _flush(acc, first, last, slot_ptr, n_bins, shift, sign, fresh, out):
    """Move real slots of features first..last, and their missing slots, into the planes of one buffer."""
    for f in range(first, last):
        base, slot, n = uint64((f - first) * STRIDE), uint64(slot_ptr[f]), int64(n_bins[f])
        _flush_feature(acc, base, n, slot, shift, sign, fresh, out)
        if slot_ptr[f + 1] - slot_ptr[f] > n:
            _flush_feature(acc, base + uint64(MISSING_U8), int64(1), slot + uint64(n), shift, sign, fresh, out)
    for f in range(last - first, (last - first + 7) // 8 * 8):  # padding bytes are bin 0 of features that do not exist
        acc[uint64(f * STRIDE)] = 0


def _sum_rows(page, ids, in_order, values, start, stop, first, last, packing, sign, fresh, acc, out):
    """Features first..last of a buffer gain the sums of ids[start:stop] times `sign`, or are set to them if `fresh`.

    Two forms, chosen by the kind of bins when compiled.
    """
    raise NotImplementedError  # only its two compiled forms below are ever called


def _sum_rows_u8(page, ids, in_order, values, start, stop, first, last, packing, sign, fresh, acc, out):
    origin = origin_of(page.first_row)
    for block in range(start, stop, packing[2]):
        end = block + packing[2] if block + packing[2] < stop else stop
        _add_rows(page.bins, origin, ids, in_order, values, block, end, first, last, acc)
        _flush(acc, first, last, page.slot_ptr, page.n_bins, packing[0], sign, fresh and block == start, out)


def _sum_rows_u16(page, ids, in_order, values, start, stop, first, last, packing, sign, fresh, acc, out):
    bins, slot_ptr, n_bins = page.bins, page.slot_ptr, page.n_bins
    shift, plane, origin = packing[0], slot_ptr[slot_ptr.shape[0] - 1], int64(origin_of(page.first_row))
    mask = (int64(1) << shift) - 1
    if fresh:
        out[slot_ptr[first] : slot_ptr[last]] = 0
        if shift > 0:  # both planes at once
            out[plane + slot_ptr[first] : plane + slot_ptr[last]] = 0
    for i in range(start, stop):
        r = i if in_order else int64(ids[i])
        v = values[r]
        for f in range(first, last):
            # the missing code is above every bin: clamping sends it to the missing slot
            slot = slot_ptr[f] + min(int64(bins[r - origin, f]), int64(n_bins[f]))
            if shift > 0:
                out[slot] += sign * (v >> shift)
                out[plane + slot] += sign * (v & mask)
            else:
                out[slot] += sign * v


@forms_of(_sum_rows, optimised=True)
def _choose_sum_rows(page, ids, in_order, values, start, stop, first, last, packing, sign, fresh, acc, out):
    return _sum_rows_u8 if page[0].dtype == types.uint64 else _sum_rows_u16


@section
def build_histograms(page, ids, in_order, values, packing, builds, acc, partial, hist, block, start, stop):
    """Sum builds' rows number start..stop (counted over all builds) for one block of 64 features.

    `packing` = [shift, plane, rows that can be summed packed before a half overflows]; acc (64 * STRIDE,) is zero
    before and after. hist (n_buffers, 2 * n_slots) OUT: a build inside the range goes to its own buffer;
    partial (2, 2 * n_slots) OUT: a build that the range cuts is set here, at 0 if its head is missing, else at 1.
    """
    n_slots = page.slot_ptr[page.slot_ptr.shape[0] - 1]
    first = block * BLOCK_FEATURES
    last = first + clip(page.n_bins.shape[0] - first, int64(BLOCK_FEATURES))
    plane, after = packing[1] * n_slots, (packing[1] + 2) * n_slots
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        lo, hi = clip(start - build.first, n), clip(stop - build.first, n)
        if lo >= hi:
            continue
        whole = lo == 0 and hi == n
        out = hist[build.hist][plane:after] if whole else partial[1 if lo == 0 else 0][plane:after]
        sign, fresh = (int64(build.sign), build.fresh != 0) if whole else (int64(1), True)
        a, z = build.start + lo, build.start + hi
        _sum_rows(page, ids, in_order, values, a, z, first, last, packing, sign, fresh, acc, out)


@section
def merge_histograms(builds, bounds, partial, hist, start, stop):
    """Add up the builds that row spans shared, in hist[:, start:stop].

    bounds (n_spans + 1,): where the row spans of `build_histograms` began; partial (n_spans, 2, 2 * n_slots).
    """
    n_spans = bounds.shape[0] - 1
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        set_first = build.fresh != 0
        out = hist[build.hist]
        sign = int64(build.sign)
        for t in range(n_spans):
            lo, hi = clip(bounds[t] - build.first, n), clip(bounds[t + 1] - build.first, n)
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


@section
def subtract_histograms(subtracts, hist, start, stop):
    """What remains of each parent's buffer without its smaller child, in hist[:, start:stop]."""
    for s in range(subtracts.shape[0]):
        large, small = hist[subtracts[s].large], hist[subtracts[s].small]
        for j in range(uint64(start), uint64(stop)):
            large[j] -= small[j]
