"""The weighted quantile sketch: ranks are never off by more than eps of the weight, whatever stream and tree."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arboost.matrix import summary as module
from arboost.matrix.summary import Summary, WeightedQuantileSketch
from arboost.runtime.errors import XGBoostError

WEIGHTS = st.sampled_from(["ones", "small", "ties and zeros", "huge"])
QUANTILES = [0.0, 0.01, 0.25, 0.4999, 0.5, 0.75, 0.999, 1.0]


def make_stream(rng, n, kind, n_values):
    """Values (few distinct ones if n_values says so) in a random, sorted or reversed order, and integer weights."""
    values = rng.normal(size=n) if n_values is None else rng.integers(-n_values, n_values, n)
    values = values.astype(np.float32)
    order = rng.integers(3)
    if order:
        values = np.sort(values)[:: 1 if order == 1 else -1]
    weights = {
        "ones": np.ones(n, np.int64),
        "small": rng.integers(0, 10, n),
        "ties and zeros": rng.integers(0, 2, n) * rng.integers(1, 4, n),
        "huge": np.where(rng.random(n) < 0.02, rng.integers(1, 1 << 45, n), rng.integers(0, 3, n)),
    }[kind]
    return values, weights.astype(np.int64)


def rank_error(values, weights, rank, found):
    """How far `rank` is from the ranks that the found value has among all values."""
    below = int(weights[values < found].sum())
    upto = int(weights[values <= found].sum())
    return max(below - rank, rank - upto, 0)


def check_sketch(sketch, values, weights, eps):
    total = int(weights.sum())
    assert sketch.total_weight == total
    if not total:
        assert np.isnan(sketch.quantiles([0.5])).all()
        return
    for q, found in zip(QUANTILES, sketch.quantiles(QUANTILES), strict=True):
        assert rank_error(values, weights, Fraction(q) * total, found) <= Fraction(eps) * total
    check_summary(sketch.summary(), values, weights, Fraction(eps) * total)


def check_summary(summary, values, weights, error):
    """Bounds hold for every entry, the extremes are there, and no rank is less certain than `error`."""
    assert (np.diff(summary.values) > 0).all()
    counted = values[weights > 0]
    assert summary.values[0] == counted.min() and summary.values[-1] == counted.max()
    assert summary.total == weights.sum()
    assert summary.error <= error
    for value, (rmin, rmax, w) in zip(summary.values, summary.ranks.T.tolist(), strict=True):
        below, own = int(weights[values < value].sum()), int(weights[values == value].sum())
        assert rmin <= below and rmax >= below + own and 0 <= w <= own


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 3000),
    kind=WEIGHTS,
    n_values=st.sampled_from([None, 1, 3, 40]),
    eps=st.sampled_from([0.5, 0.1, 0.03, 0.004]),
    n_chunks=st.integers(1, 60),
    shape=st.sampled_from(["stream", "chain", "random tree"]),
    buffer=st.sampled_from([1, 7, 100, 4096]),
)
def test_ranks_are_within_eps_for_any_stream(seed, n, kind, n_values, eps, n_chunks, shape, buffer):
    """Any order, any chunks, any merge tree."""
    rng = np.random.default_rng(seed)
    values, weights = make_stream(rng, n, kind, n_values)
    cuts = np.sort(rng.integers(0, n + 1, n_chunks - 1))
    chunks = list(zip(np.split(values, cuts), np.split(weights, cuts), strict=True))
    sketches = []
    for x, w in chunks:
        if shape != "stream" or not sketches:
            sketches.append(WeightedQuantileSketch(eps))
            sketches[-1]._buffer = buffer
        sketches[-1].push(x, w)
    while len(sketches) > 1:
        i, j = (0, 1) if shape == "chain" else rng.choice(len(sketches), 2, replace=False)
        sketches[i].merge(sketches[j])
        del sketches[j]
    check_sketch(sketches[0], values, weights, eps)


def test_memory_stays_small_however_long_the_stream():
    rng = np.random.default_rng(0)
    sketch = WeightedQuantileSketch(0.01)
    values = rng.normal(size=2_000_000).astype(np.float32)
    for chunk in np.split(values, 400):
        sketch.push(chunk)
    n_entries = sum(len(level.values) for level in sketch._levels if level is not None)
    assert n_entries < 30_000
    weights = np.ones(len(values), np.int64)
    for q, found in zip(QUANTILES, sketch.quantiles(QUANTILES), strict=True):
        assert rank_error(values, weights, Fraction(q) * len(values), found) <= 0.01 * len(values)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 400), n_steps=st.integers(1, 50), kind=WEIGHTS)
def test_summaries_of_a_run_and_pruned_ones_keep_their_promise(seed, n, n_steps, kind):
    """A run costs 1 / n_steps, a merge nothing, a pruning another 1 / n_steps."""
    rng = np.random.default_rng(seed)
    values, weights = make_stream(rng, 2 * n, kind, rng.choice([None, 5, 100]))
    weights[:] += kind == "small"
    parts = []
    for half in (slice(n), slice(n, None)):
        x, w = values[half][weights[half] > 0], weights[half][weights[half] > 0]
        if not len(x):
            return
        parts.append(module._summarise(x, w, n_steps))
        assert len(parts[-1].values) <= n_steps + 1
        check_summary(parts[-1], x, w, Fraction(int(w.sum()), n_steps))
    total = int(weights.sum())
    merged = module._merge(*parts)
    check_summary(merged, values, weights, Fraction(total, n_steps))
    pruned = module._prune(merged, n_steps)
    assert len(pruned.values) <= max(n_steps + 1, 2)
    check_summary(pruned, values, weights, Fraction(2 * total, n_steps))


def test_merging_is_symmetric_and_leaves_the_other_alone():
    rng = np.random.default_rng(1)
    a, b = WeightedQuantileSketch(0.05), WeightedQuantileSketch(0.05)
    for sketch in (a, b):
        for _ in range(5):
            sketch.push(rng.normal(size=3000), rng.integers(0, 9, 3000))
    before = b.quantiles(QUANTILES)
    for first, second in ((a.summary(), b.summary()), (b.summary(), a.summary())):
        merged = module._merge(first, second)
        np.testing.assert_array_equal(merged.ranks, module._merge(second, first).ranks)
    total = a.total_weight + b.total_weight
    a.merge(b)
    assert a.total_weight == total
    np.testing.assert_array_equal(b.quantiles(QUANTILES), before)


def test_few_distinct_values_are_exact():
    sketch = WeightedQuantileSketch(0.1)
    for _ in range(30):
        sketch.push(np.arange(5), [1, 0, 2, 3, 4])
        sketch._flush()
    assert sketch.summary().error == 0
    assert sketch.summary().values.tolist() == [0, 2, 3, 4]
    assert sketch.quantiles([0, 0.11, 0.29, 0.31, 0.61, 1]).tolist() == [0, 2, 2, 3, 4, 4]


def test_missing_values_zeros_and_units():
    sketch = WeightedQuantileSketch(0.1, weight_unit=2.0**-10)
    sketch.push([np.nan, -0.0, 0.0, 5.0], [9.0, 0.5, 0.25, 0.25])
    assert sketch.total_weight == 1.0
    assert sketch.summary().values.tolist() == [0.0, 5.0]
    assert not np.signbit(sketch.summary().values[0])
    assert sketch.quantiles(0.8).tolist() == [5.0]


@pytest.mark.parametrize("eps", [0, 1, -0.1, 1.5, np.nan])
def test_eps_out_of_range(eps):
    with pytest.raises(XGBoostError, match="eps must lie between 0 and 1"):
        WeightedQuantileSketch(eps)


@pytest.mark.parametrize("weights", [[1, -1], [1, np.nan], [1, np.inf], [2**62, 1], [2**60, 2**60]])
def test_weights_that_cannot_be_added_up(weights):
    sketch = WeightedQuantileSketch(0.1)
    with pytest.raises(XGBoostError, match="finite and not negative"):
        sketch.push([1.0, 2.0], weights)
    assert sketch.total_weight == 0


def test_wrong_arguments():
    sketch = WeightedQuantileSketch(0.1)
    with pytest.raises(XGBoostError, match="2 values need 2 weights, got 1"):
        sketch.push([1.0, 2.0], [1])
    with pytest.raises(XGBoostError, match="from 0 to 1"):
        sketch.quantiles([1.1])
    with pytest.raises(XGBoostError, match="eps and weight_unit are equal"):
        sketch.merge(WeightedQuantileSketch(0.2))
    with pytest.raises(XGBoostError, match="weight_unit"):
        WeightedQuantileSketch(0.1, weight_unit=0)
    assert isinstance(sketch.summary(), Summary) and sketch.summary().error == 0
