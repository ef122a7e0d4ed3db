"""Gradients that a device finds are the CPU's to the bit, and which losses have theirs found there."""

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.boosters import device_losses
from arboost.boosters.device import DeviceTrainer
from arboost.boosters.device_losses import source_class
from arboost.kernels.gpu import leaf_quantile, rank
from arboost.kernels.gpu.jit import gpu_kernel
from arboost.losses import make_loss
from arboost.matrix.meta import MetaInfo
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.device import device

MANY = 40_000 if cases.IS_REAL else 300


def assert_same_gradients(params, info, margin, rounds=(3,)):
    """Of both, in rounds of these keys; the margins may change between them."""
    loss, ctx, here = make_loss(params["objective"], resolve(params).learner), Context(), device("cuda")
    loss.check_info(info)
    here.use()
    there = source_class(loss, info)(ctx, here, loss, info)
    sent = here.upload(margin), *(here.empty(margin.T.shape, np.float32) for _ in range(2))
    wanted = np.empty((2, *margin.T.shape), np.float32)
    for key in rounds:
        loss.gradient_of(ctx, key, margin, info, *wanted)
        there.find(sent[0], key, *sent[1:])
        for name, found, one in zip("gh", sent[1:], wanted, strict=True):
            found = found.copy_to_host()
            differ = (found.view(np.uint32) != one.view(np.uint32)) & ~(np.isnan(found) & np.isnan(one))
            assert not differ.any(), f"{differ.sum()} of {name} differ: {found[differ][0]!r}, not {one[differ][0]!r}"
        margin = (margin - wanted[0].T).astype(np.float32)
        sent[0].copy_to_device(margin)


# ---- ranking ----

SIZES = {
    "groups of one row": np.ones(40, int),
    "all sizes": np.append(np.arange(41 if cases.IS_REAL else 18), [31, 32, 33]),
    "more groups than blocks": np.full(MANY // 3, 3),
    "a large group": np.array([MANY, 0, 1]),
    "a group of two to a power": np.array([64, 128]),
}
RANKINGS = {
    "ndcg": {},
    "few ranks": {"lambdarank_num_pair_per_sample": 2},
    "all ranks": {"lambdarank_num_pair_per_sample": 1000, "ndcg_exp_gain": False},
    "no norms": {"lambdarank_normalization": False, "lambdarank_score_normalization": False},
    "drawn": {"lambdarank_pair_method": "mean"},
    "drawn often": {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 5},
    "drawn without norms": {"lambdarank_pair_method": "mean", "lambdarank_normalization": False},
}


def grouped(objective, sizes, kind="degrees", ties=False, weights=False):
    """A matrix's info, and margins."""
    rng, n = np.random.default_rng(2), int(sizes.sum())
    info = MetaInfo(n, 1)
    degrees = {"degrees": rng.integers(0, 4, n), "equal": np.ones(n), "hits": rng.integers(0, 2, n)}
    info.label = degrees["hits" if objective == "rank:map" and kind == "degrees" else kind].astype(np.float32)
    info.group_ptr = np.append(0, np.cumsum(sizes)).astype(np.int64)
    if weights:
        info.weight = rng.random(len(sizes)).astype(np.float32) * (rng.random(len(sizes)) < 0.8)
    margin = rng.integers(-1, 2, (n, 1)) * np.float32(0.5) if ties else rng.normal(size=(n, 1))
    return info, margin.astype(np.float32)


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
@pytest.mark.parametrize("how", RANKINGS)
def test_groups_of_all_sizes(objective, how):
    for ties in (False, True):
        info, margin = grouped(objective, SIZES["all sizes"], ties=ties, weights=ties)
        rounds = (3, 4) if "drawn" in how else (3,)
        assert_same_gradients({"objective": objective, **RANKINGS[how]}, info, margin, rounds)


@pytest.mark.parametrize("how", ["ndcg", "drawn"])
@pytest.mark.parametrize("which", SIZES)
def test_sizes_of_groups(which, how):
    sizes = SIZES[which]
    params = {"objective": "rank:ndcg", **RANKINGS[how]}
    assert_same_gradients(params, *grouped("rank:ndcg", sizes))
    assert_same_gradients(params, *grouped("rank:ndcg", sizes, kind="equal", weights=len(sizes) > 3))


def test_scores_that_are_not_numbers_to_compare():
    """Infinite margins, both zeros, and distances that overflow."""
    info, margin = grouped("rank:ndcg", np.array([12, 12, 12]))
    margin[::5, 0] = np.inf
    margin[1::5, 0], margin[2::5, 0] = 0.0, -0.0
    margin[12:24, 0] = np.float32(3e38) * np.where(np.arange(12) % 2, 1, -1)
    for how in RANKINGS.values():
        assert_same_gradients({"objective": "rank:ndcg", **how}, info, margin, rounds=(3,))


@gpu_kernel
def _sort(keys, starts):
    for q in range(starts.shape[0] - 1):
        rank.sort_keys(keys, starts[q], starts[q + 1] - starts[q])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 31, 32, 33, 100, 257, *([70_000] if cases.IS_REAL else [])])
def test_keys_are_sorted_in_their_stretch(n):
    here, rng = device("cuda"), np.random.default_rng(n)
    here.use()
    keys = rng.integers(0, 2**63, n + 7, dtype=np.uint64) * np.uint64(2)
    keys[rng.random(n + 7) < 0.2] |= np.uint64(1)
    sent = here.upload(keys)
    here.run(_sort, sent, here.upload(np.array([3, 3 + n, 3 + n])), shape=(1, 64))
    keys[3 : 3 + n].sort()
    np.testing.assert_array_equal(sent.copy_to_host(), keys)


def test_arguments_that_change():
    assert rank._drawn_gradients.__code__.co_varnames.index("key") == device_losses._OfGroups._KEY
    assert leaf_quantile._solve_leaves.__code__.co_varnames.index("eta") == device_losses.QuantileSource._ETA


# ---- times ----


@pytest.mark.parametrize("noise", ["normal", "logistic", "extreme"])
def test_intervals(noise):
    rng = np.random.default_rng(0)
    info = MetaInfo(MANY, 1)
    info.label_lower_bound = np.exp(rng.normal(size=MANY)).astype(np.float32)
    wider = rng.choice([0, 1e-5, 0.5, np.inf], MANY).astype(np.float32)
    info.label_upper_bound = info.label_lower_bound * (1 + wider)
    info.label_lower_bound[::7] = 0
    info.label_upper_bound[::7] = 1
    margin = (10.0 ** rng.integers(-3, 3, (MANY, 1)) * rng.normal(size=(MANY, 1))).astype(np.float32)
    params = {"objective": "survival:aft", "aft_loss_distribution": noise, "aft_loss_distribution_scale": 0.7}
    assert_same_gradients(params, info, margin)
    info.weight = rng.random(MANY).astype(np.float32)
    assert_same_gradients(params, info, margin)


# ---- leaves by quantiles ----


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_steps_that_change_between_rounds(alpha):
    """The learning rate goes to the device with every tree."""
    models = []
    for name in ("cpu", "cuda"):
        params = {**cases.COMMON, "objective": "reg:quantileerror", "quantile_alpha": alpha, "device": name}
        steps = arboost.callback.LearningRateScheduler([0.5, 0.4, 0.3])
        models.append(bytes(arboost.train(params, cases.matrix({}), 3, callbacks=[steps]).save_raw()))
    assert models[0] == models[1]


# ---- who finds them ----

KEPT = (
    "regression", "classes", "several targets", "ranking", "ranking by hits", "ranking by draws", "ranking by pairs",
    "intervals", "weighted intervals", "absolute error", "quantiles", "quantiles with weights", "quantiles of ties",
    "quantiles, and an outlier among weights", "medians of two targets",
)  # fmt: skip
SENT = ("hazards", "expectiles", "ranking with a bias", "medians of a sample", "medians in deep trees")


@pytest.mark.parametrize("case", KEPT + SENT)
def test_who_finds_the_gradients(case, monkeypatch):
    kept, train = [], DeviceTrainer.train_kept_round
    monkeypatch.setattr(
        DeviceTrainer, "train_kept_round", lambda trainer, *args: kept.append(1) or train(trainer, *args)
    )
    params, given = cases.ON_DEVICE[case]
    cases.train("cuda", params, given)
    assert len(kept) == (cases.N_ROUNDS if case in KEPT else 0)
