"""The arrays that growth works on, by name.

A field that a page or a tree does not have is `()`: what depends on it is left out when a kernel is compiled. From
Python they come as plain tuples, which Numba recognises ten times as fast as named ones; `as_level` and the like give
them their names back, in compiled code, at no cost.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types, uint64

from arboost.kernels.jit import forms_of, part


class Layout(NamedTuple):
    """Where the codes of features lie that share columns, as in matrix/bundles.py."""

    column_of: np.ndarray  # (n_features,) int64
    first_of: np.ndarray  # a feature's first code in its column
    unstored: np.ndarray  # the bin that has no code, -1: missing values have none, < -1: a column of its own
    n_bins: np.ndarray


class Entries(NamedTuple):
    """The bins of features that have no column, by rows, as slots of a histogram."""

    row_ptr: np.ndarray
    slots: np.ndarray
    any_entries: np.ndarray  # [1 if there are some]


class Page(NamedTuple):
    """Bins of the rows first_row, first_row + 1, ..."""

    bins: np.ndarray  # by rows: uint64 words of eight one-byte bins, or (n_rows, n_columns) two-byte bins
    columns: np.ndarray  # (n_columns, n_rows)
    slot_ptr: np.ndarray  # where a column's slots begin in a histogram; after them those of features without one
    n_bins: np.ndarray  # of a column
    missing_code: int
    first_row: Any = ()  # of the page; () where it is the only one: nothing is subtracted from row ids then
    layout: Any = ()  # Layout where features share columns
    slot_of: Any = ()  # there: the slot of a feature's first stored bin,
    feature_of: Any = ()  # whose bin a slot is, -1 nobody's,
    entries: Any = ()  # and Entries


class Rows(NamedTuple):
    """Which rows are in which node: node i owns ids[start:stop]."""

    ids: np.ndarray  # int32
    temp: np.ndarray  # room for as many
    n_left: np.ndarray  # of every node of the batch
    pieces: np.ndarray  # (n_jobs, 2) PIECE
    state: np.ndarray  # [1 while the ids are 0, 1, 2, ... and are not written down]


IN_ORDER = 0  # of Rows.state


class Gradients(NamedTuple):
    """Integer gradients of all rows."""

    planes: np.ndarray  # (n_planes, n_rows) int64
    packings: np.ndarray  # (n_planes, 3): shift, plane of the histogram, rows that may be added up packed


class Plan(NamedTuple):
    """What comes next: see nodes.py."""

    limits: np.ndarray
    free: np.ndarray  # a stack of buffer numbers
    builds: np.ndarray
    subtracts: np.ndarray
    evals: np.ndarray  # nodes to search
    counts: np.ndarray
    grains: np.ndarray  # work that is worth a thread: see jobs.py


class Buffers(NamedTuple):
    """Histograms: see histogram.py."""

    acc: np.ndarray  # a thread's accumulator
    partial: np.ndarray  # sums of rows that are part of a build
    bounds: np.ndarray  # where the spans of rows begin
    hist: np.ndarray  # (n_buffers, n_planes * n_slots)


class Symmetric(NamedTuple):
    """What a search for one condition for all nodes of a level needs: see symmetric.py."""

    scores: np.ndarray  # (n_threads, 2, widest) float64: with missing values on the right, on the left
    score_bits: np.ndarray  # the same memory as integers


class Choice(NamedTuple):
    """Which candidates are taken at all: see choice.py."""

    key: np.ndarray  # (1,) uint64: seeds the draw of one candidate for every node and feature; 0: all are tried
    rows: np.ndarray  # [least rows of a child, plane of the histogram that counts rows]


class Columns(NamedTuple):
    """The draw of features for every node, where kernels make it: see round/sample.py."""

    key: np.ndarray  # (1,) uint64
    features: np.ndarray  # int64: the tree's
    n_chosen: np.ndarray  # (1,) int64: how many of them a node has; 0: `allowed` is there before a search
    draws: np.ndarray  # (2, n_features) float64 of scratch memory


class Search(NamedTuple):
    """What is searched and found: see split.py."""

    batch: np.ndarray  # nodes to open
    opened: np.ndarray  # nodes that have a split
    allowed: np.ndarray  # (n_evals or 1, n_features) uint8
    reg: np.ndarray
    best: np.ndarray  # (n_evals, n_features) CANDIDATE
    scratch: np.ndarray
    scores: np.ndarray
    score_bits: np.ndarray  # the same memory as integers
    columns: Columns
    symmetric: Any = ()  # Symmetric where all nodes of a level get the same condition
    choice: Any = ()  # Choice where not every candidate is taken


class Bounds(NamedTuple):
    """What monotone constraints leave to every node's weight: see bounds.py."""

    constraints: np.ndarray  # (n_features,) int64: 1, -1 or 0
    least: np.ndarray  # (n_nodes,) float64
    largest: np.ndarray
    outputs: np.ndarray  # (n_nodes,) float64: the weight of every node, smoothed
    in_force: np.ndarray  # [1 if there are any bounds, or weights are smoothed; the hessian at which a node's own
    # weight counts as much as that of its parent, 0: it alone counts]


class Sets(NamedTuple):
    """Nodes that are split by a set of categories."""

    is_set: np.ndarray  # (n_nodes,) uint8
    bits: np.ndarray  # (n_nodes, n_words) uint64: the categories that go right


class Special(NamedTuple):
    """Features that have a search of their own: categorical ones, and all where there are bounds. See special.py."""

    features: np.ndarray  # int32
    is_special: np.ndarray  # (n_features,) uint8
    is_category: np.ndarray
    limits: np.ndarray  # [max_cat_to_onehot, max_cat_threshold]
    sets: Sets
    bounds: Bounds
    weights: np.ndarray  # (n_threads, widest) float32
    orders: np.ndarray  # (n_threads, 2, widest) int64


class Vectors(NamedTuple):
    """Sums of trees with a weight for each of K targets: see vectors.py."""

    sums: np.ndarray  # (n_nodes, 2 * K) int64
    left_sums: np.ndarray
    units: np.ndarray  # (K, 2) float64
    sources: np.ndarray  # (K, 2) int64: a target's first plane of gradients, and its shift
    scores: np.ndarray  # (n_threads, 2, widest) float64
    score_bits: np.ndarray


class Level(NamedTuple):
    """Everything that a level of a tree in memory needs."""

    page: Page
    nodes: np.ndarray
    rows: Rows
    gradients: Gradients
    plan: Plan
    buffers: Buffers
    search: Search
    extra: Any  # (), Special or Vectors


class Runs(NamedTuple):
    """Parts of nodes' rows that lie on one page: see paged.py."""

    pieces: np.ndarray  # (n_pages * n_batch,) PIECE: of every page that was split, the run of every node of the batch
    spans: np.ndarray  # (n_batch, 2) int64: the nodes' own ranges, while theirs is a page's run
    builds: np.ndarray  # BUILD: what of the plan concerns a page
    counts: np.ndarray  # [number of pieces]


class PagedLevel(NamedTuple):
    """The same where rows lie on several pages, `page` the one that is at hand."""

    page: Page
    nodes: np.ndarray
    rows: Rows
    gradients: Gradients
    plan: Plan
    buffers: Buffers
    search: Search
    extra: Any
    runs: Runs


def is_of(kind: Any, bundle: type) -> bool:
    """Whether Numba's type of an argument is this bundle."""
    return getattr(kind, "instance_class", None) is bundle


# ---- from plain tuples to names ----


def as_shared(arrays):
    """Layout or Entries from its fields, if it has any; their number tells which it is."""
    raise NotImplementedError  # only its compiled forms below are ever called


@forms_of(as_shared)
def _choose_shared(arrays):
    if len(arrays) == len(Layout._fields):
        return lambda arrays: Layout(*arrays)
    if len(arrays) == len(Entries._fields):
        return lambda arrays: Entries(*arrays)
    return lambda arrays: ()


@part
def as_page(arrays):
    """A page from its fields."""
    bins, columns, slot_ptr, n_bins, missing_code, first_row, layout, slot_of, feature_of, entries = arrays
    return Page(
        bins, columns, slot_ptr, n_bins, missing_code, first_row, as_shared(layout), slot_of, feature_of,
        as_shared(entries),
    )  # fmt: skip


def origin_of(first_row):
    """The id of a page's first row."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(origin_of)
def _choose_origin_of(first_row):
    return _origin_of_only_page if isinstance(first_row, types.BaseTuple) else _origin_of_page


def _origin_of_only_page(first_row):
    return uint64(0)


def _origin_of_page(first_row):
    return uint64(first_row)


def as_extra(arrays):
    """What is special about a kind of tree, from its fields; their number tells which it is."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _as_special(arrays):
    features, is_special, is_category, limits, sets, bounds, weights, orders = arrays
    return Special(features, is_special, is_category, limits, Sets(*sets), Bounds(*bounds), weights, orders)


@forms_of(as_extra)
def _choose_as_extra(arrays):
    if len(arrays) == len(Special._fields):
        return _as_special
    if len(arrays) == len(Vectors._fields):
        return lambda arrays: Vectors(*arrays)
    if len(arrays) == len(Bounds._fields):
        return lambda arrays: Bounds(*arrays)
    return lambda arrays: ()


def _as_symmetric(arrays):
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(_as_symmetric)
def _choose_as_symmetric(arrays):
    if len(arrays):
        return lambda arrays: Symmetric(*arrays)
    return lambda arrays: ()


def _as_choice(arrays):
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(_as_choice)
def _choose_as_choice(arrays):
    if len(arrays):
        return lambda arrays: Choice(*arrays)
    return lambda arrays: ()


@part
def _as_search(arrays):
    batch, opened, allowed, reg, best, scratch, scores, score_bits, columns, symmetric, choice = arrays
    named = Columns(*columns), _as_symmetric(symmetric), _as_choice(choice)
    return Search(batch, opened, allowed, reg, best, scratch, scores, score_bits, named[0], named[1], named[2])


@part
def as_level(arrays):
    """A level from its fields."""
    page, nodes, rows, gradients, plan, buffers, search, extra = arrays
    return Level(
        as_page(page), nodes, Rows(*rows), Gradients(*gradients), Plan(*plan), Buffers(*buffers), _as_search(search),
        as_extra(extra),
    )  # fmt: skip


@part
def as_paged_level(arrays):
    """A paged level from its fields."""
    page, nodes, rows, gradients, plan, buffers, search, extra, runs = arrays
    return PagedLevel(
        as_page(page), nodes, Rows(*rows), Gradients(*gradients), Plan(*plan), Buffers(*buffers), _as_search(search),
        as_extra(extra), Runs(*runs),
    )  # fmt: skip


def plain(bundle: Any) -> Any:
    """A named bundle, and those in it, as plain tuples."""
    return tuple(plain(field) for field in bundle) if isinstance(bundle, tuple) else bundle
