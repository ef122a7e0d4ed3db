"""Every formula that device code takes from kernels/, and its own arithmetic: bit for bit what the CPU computes."""

import numba
import numpy as np
import pytest
from numba import float32, float64, int64, uint32, uint64

from arboost.kernels import elementary, loss_formulas, metric_formulas, rank_formulas, scalar, survival_formulas
from arboost.kernels.cpu.grow.split import score_all
from arboost.kernels.cpu.round import leaf_quantile
from arboost.kernels.gpu import quantize, split
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part
from arboost.levels.quantize import _scale
from arboost.runtime.device import device
from device_cases import IS_REAL

N = 1_000_000 if IS_REAL else 300
# fmt: off
SPECIAL = [0.0, 1.0, 0.5, 2.0, 1e-3, 1e3, 88.7, 88.8, 103.9, 104.0, 709.7, 709.8, 745.2, 1e-38, 1e-40, 1e-45, 3e38,
           5e-324, 2.0**-1022, 1.7e308, 1 - 2.0**-24, 1 + 2.0**-23, 1 - 2.0**-53, 2.0**51, 2.0**52, np.inf, np.nan]
# fmt: on
REGS = [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1.7, 0.3, 0, 2, 1], [0.5, 0, 0.7, 0, 0], [3, 1.1, 0.01, 0.5, 0]]


def values(dtype, n_rows, seed):
    """(n_rows, n): all scales, both signs, special values in all combinations first."""
    rng = np.random.default_rng(seed)
    special = np.array([sign * x for x in SPECIAL for sign in (1, -1)])
    with np.errstate(over="ignore"):
        pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)[:, : N // 2]
        x = rng.normal(size=(n_rows, N)) * 10.0 ** rng.integers(-6, 7, (n_rows, N))
        x[:, : pairs.shape[1]] = pairs[np.arange(n_rows) % 2]
        return x.astype(dtype)


def one_of_one(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i])

    return body


def two_of_two(f):
    def body(x, reg, out, i):
        out[0, i], out[1, i] = f(x[0, i], x[1, i])

    return body


def two_of_three(f):
    def body(x, reg, out, i):
        out[0, i], out[1, i] = f(x[0, i], x[1, i], x[2, i])

    return body


def two_of_a_class(f):
    def body(x, reg, out, i):
        out[0, i], out[1, i] = f(x[0, i], x[1, i] > 0)

    return body


def one_of_two(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i], x[1, i])

    return body


def one_of_three(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i], x[1, i], x[2, i])

    return body


def one_of_a_float32(f):
    def body(x, reg, out, i):
        out[0, i] = float64(f(float32(x[0, i])))

    return body


def one_of_a_degree(f):
    def body(x, reg, out, i):
        out[0, i] = f(float32(i % 32), x[0, i] > 0)

    return body


def one_of_hits(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i] > 0, x[0, i], x[1, i], x[2, i], x[1, i], uint64(i), uint64(i + 3))

    return body


def one_of_a_draw(f):
    def body(x, reg, out, i):
        n = uint64(i + 2)
        out[0, i] = float64(f(uint64(i) * uint64(0x9E3779B97F4A7C15), uint64(i), uint64(i // 3), uint64(i // 2 + 1), n))

    return body


def one_of_a_key(f):
    def body(x, reg, out, i):
        out[0, i] = f(uint32(i) * uint32(2654435761))

    return body


def place_of_rows(f):
    def body(x, reg, out, i):
        out[0, i], out[1, i] = f((i % 101) / 100.0, float64(i // 7 + 1))

    return body


def goal_of_units(f):
    def body(x, reg, out, i):
        out[0, i] = f(int64(i) * int64(123456789), 2.0**-37, (i % 101) / 100.0)

    return body


def reached_units(f):
    def body(x, reg, out, i):
        out[0, i] = f(int64(i) * int64(123456789), 2.0**-37, float32(x[0, i]))

    return body


def two_of_a_pair(f):
    def body(x, reg, out, i):
        out[0, i], out[1, i], _ = f(x[0, i], x[1, i], x[2, i] > 0)

    return body


def one_of_an_interval(f):
    def body(x, reg, out, i):
        low, high = (x[0, i], x[1, i]) if x[0, i] < x[1, i] else (x[1, i], x[0, i])
        out[0, i] = f(i % 3, low, high)

    return body


def two_of_bounds(f):
    def body(x, reg, out, i):
        low, high = (x[0, i], x[1, i]) if x[0, i] < x[1, i] else (x[1, i], x[0, i])
        out[0, i], out[1, i] = f(low, high)

    return body


def parts_of_bounds(f):
    def body(x, reg, out, i):
        low, high = (x[0, i], x[1, i]) if x[0, i] < x[1, i] else (x[1, i], x[0, i])
        mass, rise, bend, scale = f(low, high)
        out[0, i], out[1, i] = mass + bend, rise + scale

    return body


def two_of_an_interval(f):
    def body(x, reg, out, i):
        low, high = (x[0, i], x[1, i]) if x[0, i] < x[1, i] else (x[1, i], x[0, i])
        out[0, i], out[1, i] = f(i % 3, low, high)

    return body


def two_of_a_time(f):
    def body(x, reg, out, i):
        low, high = (x[0, i], x[1, i]) if x[0, i] < x[1, i] else (x[1, i], x[0, i])
        high = high if high > 0 else float32(1)  # as labels are checked
        out[0, i], out[1, i] = f(x[2, i], low, high, i % 3, 0.7)

    return body


def one_of_sums(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i], x[1, i], reg)

    return body


def one_of_weights(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i], x[1, i], x[2, i], reg)

    return body


def one_of_bounds(f):
    def body(x, reg, out, i):
        out[0, i] = f(x[0, i], x[1, i], -abs(x[2, i]), abs(x[2, i]), reg[0], x[2, i], reg)

    return body


FORMULAS = [
    *((elementary, name, one_of_one, np.float64) for name in ("exp", "log", "log1p", "log_gamma")),
    (scalar, "soft_threshold", one_of_two, np.float64),
    *((scalar, name, one_of_sums, np.float64) for name in ("leaf_weight", "leaf_score")),
    (scalar, "score_of_weight", one_of_weights, np.float64),
    (scalar, "bounded_weight", one_of_bounds, np.float64),
    *((loss_formulas, name, one_of_one, np.float32) for name in ("exp32", "sigmoid32")),
    *(
        (loss_formulas, name, two_of_two, np.float32)
        for name in ("squared_error", "squared_log_error", "logistic", "hinge", "absolute_error", "gamma")
    ),
    *(
        (loss_formulas, name, two_of_three, np.float32)
        for name in ("pseudo_huber", "quantile_error", "poisson", "tweedie")
    ),
    (loss_formulas, "softmax", two_of_a_class, np.float32),
    (rank_formulas, "falling_key", one_of_a_float32, np.float64),
    (rank_formulas, "gain", one_of_a_degree, np.float64),
    (rank_formulas, "precision_change", one_of_hits, np.float64),
    (rank_formulas, "pair_derivatives", two_of_a_pair, np.float64),
    (rank_formulas, "group_factor", one_of_one, np.float64),
    (rank_formulas, "draw_partner", one_of_a_draw, np.float64),
    *((survival_formulas, name, one_of_one, np.float64) for name in ("expm1", "mills", "normal_density", "logistic")),
    (leaf_quantile, "key_of", one_of_a_float32, np.float64),
    (leaf_quantile, "value_of", one_of_a_key, np.float32),
    (leaf_quantile, "place_of", place_of_rows, np.float64),
    (leaf_quantile, "goal_of", goal_of_units, np.float64),
    (leaf_quantile, "reaches", reached_units, np.float64),
    (survival_formulas, "normal_parts", parts_of_bounds, np.float64),
    *((survival_formulas, f"{name}_derivatives", two_of_bounds, np.float64) for name in ("normal", "extreme")),
    (survival_formulas, "aft_derivatives", two_of_an_interval, np.float64),
    (survival_formulas, "aft_mass", one_of_an_interval, np.float64),
    *((survival_formulas, name, one_of_three, np.float64) for name in ("standardised", "clipped")),
    (survival_formulas, "aft_gradient", two_of_a_time, np.float32),
    *(
        (metric_formulas, name, one_of_two, np.float64)
        for name in (
            "squared_error", "absolute_error", "relative_error", "squared_log_error", "log_loss", "poisson_log_loss",
            "gamma_log_loss", "gamma_deviance",
        )
    ),
    *(
        (metric_formulas, name, one_of_three, np.float64)
        for name in ("pseudo_huber", "pinball", "asymmetric_square", "wrong_side", "tweedie_log_loss")
    ),
    (metric_formulas, "class_log_loss", one_of_one, np.float64),
]  # fmt: skip


def on_device(body, x, reg, n_out=2):
    part = gpu_part(body)

    def loop(x, reg, out):
        for i in range(cuda.grid(1), x.shape[1], cuda.gridsize(1)):
            part(x, reg, out, i)

    here = device("cuda")
    here.use()
    out = here.upload(np.zeros((n_out, x.shape[1]), x.dtype))
    here.run(gpu_kernel(loop), here.upload(x), here.upload(reg), out)
    return out.copy_to_host()


def on_cpu(body, x, reg):
    part = numba.njit(error_model="numpy")(body)

    @numba.njit(error_model="numpy")
    def loop(x, reg, out):
        for i in range(x.shape[1]):
            part(x, reg, out, i)

    out = np.zeros((2, x.shape[1]), x.dtype)
    loop(x, reg, out)
    return out


def assert_same_bits(found, wanted):
    both_nan = np.isnan(found) & np.isnan(wanted)  # which of the many NaN it is says nothing
    kind = np.uint64 if found.dtype == np.float64 else np.uint32
    differ = (found.view(kind) != wanted.view(kind)) & ~both_nan
    assert not differ.any(), (
        f"{differ.sum()} differ, the first: {found[differ][0]!r}, the CPU has {wanted[differ][0]!r}"
    )


@pytest.mark.parametrize(("module", "name", "shape", "dtype"), FORMULAS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_formula(module, name, shape, dtype):
    written = getattr(module, name)
    for seed, reg in enumerate(REGS if module is scalar else REGS[:1]):
        x, reg = values(dtype, 3, seed), np.array(reg, np.float64)
        assert_same_bits(on_device(shape(formula(written)), x, reg), on_cpu(shape(written), x, reg))


def test_all_formulas_are_tested():
    tested = {name for _, name, _, _ in FORMULAS} | {"roc_area", "precision_recall_area"}  # by test_scores.py's curves
    for module in (elementary, scalar, loss_formulas, metric_formulas, rank_formulas, survival_formulas):
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        formulas = {name for name in own if hasattr(getattr(module, name), "py_func")}
        others = {"clip": "no device code uses it", "mix": "draw_partner", "aft_density": "no device code uses it"}
        assert formulas - tested <= others.keys()


def test_the_score_of_a_split():
    """On sums of quanta, as large and as unequal as they come."""
    rng = np.random.default_rng(0)
    sums = (rng.normal(size=(4, N)) * 2.0 ** rng.integers(0, 52, (4, N))).astype(np.int64)
    sums[:, : N // 10] = rng.integers(-3, 4, (4, N // 10))
    for reg in REGS:
        reg = np.array([*reg, 2.0**-20, 2.0**-21, 0.0])

        def body(x, reg, out, i):
            out[0, i] = quantize.bits_of(split.score_of(x[0, i], x[1, i], x[2, i], x[3, i], (), reg))

        assert_same_bits(on_device(body, sums, reg)[0].view(np.float64), _scores(sums, reg))


@numba.njit(error_model="numpy")
def _scores(sums, reg):
    scores = np.zeros(sums.shape[1])
    for i in range(len(scores)):
        left, zero = sums[:, i : i + 1], numba.int64(0)
        score_all(left[0], left[1], 1, zero, zero, sums[2, i], sums[3, i], reg, scores[i : i + 1])
    return scores


def test_numbers_are_rounded_as_numpy_does():
    x = np.append(values(np.float32, 1, 0)[0], np.arange(-8, 8) / 2 + 0.0).astype(np.float64)
    x = x[np.abs(x) < 2.0**62]

    def body(x, reg, out, i):
        out[0, i] = float(quantize.rint(x[0, i]))

    np.testing.assert_array_equal(on_device(body, x[None], np.zeros(1))[0], np.rint(x))


@pytest.mark.parametrize("bits", [10, 18, 40])
def test_scales_are_those_of_the_cpu(bits):
    sizes = np.abs(values(np.float32, 1, 1)[0]).astype(np.float64)
    sizes = sizes[np.isfinite(sizes)]

    def body(x, reg, out, i):
        out[0, i] = quantize.scale_of(x[0, i], int(reg[0]))

    found = on_device(body, sizes[None], np.array([bits], np.float64))[0]
    np.testing.assert_array_equal(found[:2000], [_scale(size, bits) for size in sizes[:2000].tolist()])
