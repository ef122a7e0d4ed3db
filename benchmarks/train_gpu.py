"""Training on a CUDA device against XGBoost's: matrix, training and prediction from host arrays, and the CPU's bytes.

Explanations, ranking and quantiles are measured against the same machine's CPU.

Every section stands for itself: if one fails, its error is printed and the next begins; past the budget they are left
out. XGBoost is measured where a build with CUDA is installed; else its figures are those of version 3.2 on an H200.
`--profile` says where the time goes. Needs NumPy, SciPy, Numba and numba-cuda; ARBOOST_DATA for covtype and flights_3m.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BEGAN = time.perf_counter()
ROUNDS = 100
PARAMS = {"objective": "binary:logistic", "max_depth": 6, "eta": 0.1, "tree_method": "hist", "max_bin": 256}
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"  # to see that the script runs
KINDS = (
    "regression", "binary", "classes", "counts", "gamma", "huber", "absolute error", "quantiles", "ranking",
    "ranking by draws", "intervals", "leaves", "deeper than a launch", "two bins", "wide codes", "penalties", "rows",
    "columns of nodes", "interactions", "weights", "several targets", "dropout", "sparse rows",
    "monotone", "monotone leaves", "monotone classes", "categories", "sets of categories", "leaves of categories",
    "classes of categories", "many categories", "monotone categories", "smoothed", "smoothed and monotone",
    "rows in leaves", "rows in leaves, by weight", "drawn candidates", "drawn leaves",
)  # fmt: skip


class Target(NamedTuple):
    """Seconds: XGBoost 3.2 on an H200, what we must reach, and what we aim at."""

    xgboost: float
    must: float
    aim: float


class Size(NamedTuple):
    """A table, and the targets of the stages on it."""

    n_rows: int
    n_features: int
    targets: dict[str, Target]


SIZES = (
    Size(
        1_000_000, 28,
        {"train": Target(0.259, 0.13, 0.08), "matrix": Target(0.512, 0.15, 0.05), "predict": Target(0.219, 0.1, 0.04)},
    ),
    Size(10_000, 50, {"train": Target(0.139, 0.06, 0.03)}),
    Size(
        10_000_000, 28,
        {"train": Target(0.937, 0.55, 0.4), "matrix": Target(5.08, 1.2, 0.4), "predict": Target(1.86, 0.7, 0.3)},
    ),
    Size(50_000, 1_000, {"train": Target(0.331, 0.25, 0.15)}),
)  # fmt: skip


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f} s] {text}", flush=True)


def table(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - 0.8
    return X, (rng.random(n_rows, np.float32) < 1 / (1 + np.exp(-score))).astype(np.float32)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


class Ours:
    """arboost's stages on one table."""

    name = "arboost"

    def __init__(self, threads: int):
        import arboost
        from arboost.runtime.context import Context
        from arboost.runtime.device import device

        self.module, self.ctx, self.device = arboost, Context(n_threads=threads, device="cuda"), device("cuda")

    def matrix(self, X: np.ndarray, y: np.ndarray) -> Any:
        """With bins, on the device."""
        data = self.module.DMatrix(X, y)
        data.binned(self.ctx, PARAMS["max_bin"], True, True)
        self.device.wait()
        return data

    def train(self, data: Any, rounds: int) -> Any:
        booster = self.module.train({**PARAMS, "device": "cuda", "nthread": self.ctx.n_threads}, data, rounds)
        self.device.wait()
        return booster

    def predict(self, booster: Any, X: np.ndarray) -> np.ndarray:
        return np.asarray(booster.inplace_predict(X))


class Theirs:
    """XGBoost's, the same."""

    name = "xgboost"

    def __init__(self) -> None:
        import xgboost

        if not xgboost.build_info().get("USE_CUDA"):
            raise ImportError("this XGBoost is built without CUDA")
        self.module = xgboost

    def matrix(self, X: np.ndarray, y: np.ndarray) -> Any:
        return self.module.QuantileDMatrix(X, y, max_bin=PARAMS["max_bin"])

    def train(self, data: Any, rounds: int) -> Any:
        return self.module.train({**PARAMS, "device": "cuda"}, data, rounds)

    def predict(self, booster: Any, X: np.ndarray) -> np.ndarray:
        return np.asarray(booster.inplace_predict(X))


def stages(library: Any, X: np.ndarray, y: np.ndarray, rounds: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of every stage, run by run; the first of them also compiles."""
    found: dict[str, list[float]] = {"matrix": [], "train": [], "predict": []}
    for _ in range(repeats):
        spent, data = seconds(lambda: library.matrix(X, y))
        found["matrix"].append(spent)
        spent, booster = seconds(lambda d=data: library.train(d, rounds))
        found["train"].append(spent)
        spent, _ = seconds(lambda b=booster: library.predict(b, X))
        found["predict"].append(spent)
        del data, booster
    return found


def verdict(value: float, target: Target, theirs: float) -> str:
    word = "reaches the aim" if value <= target.aim else "holds" if value <= target.must else "MISSED"
    limits = f"must {target.must}, aim {target.aim}: {word}"
    return f"{value:8.4f} s; XGBoost {theirs:.3f}, ratio {value / theirs:.2f}; {limits}"


def run_size(size: Size, options: argparse.Namespace) -> None:
    n_rows = 60 if SIMULATED else max(200, size.n_rows // 1000) if options.quick else size.n_rows
    X, y = table(n_rows, 4 if SIMULATED else size.n_features)
    ours, rounds = Ours(options.threads), 2 if SIMULATED else ROUNDS
    found = stages(ours, X, y, rounds, 2 if SIMULATED else options.repeats)
    theirs: dict[str, list[float]] = {}
    with contextlib.suppress(ImportError):
        theirs = stages(Theirs(), X, y, rounds, 2)
    for stage, values in found.items():
        target = size.targets.get(stage)
        first = f"first {values[0]:.3f}, median {float(np.median(values[1:])):.4f}"
        name = f"{stage} {n_rows:,} x {X.shape[1]}"
        if target is None:
            say(f"{name}: {min(values):8.4f} s ({first})")
        else:
            other = min(theirs[stage]) if theirs else target.xgboost
            say(f"{name}: {verdict(min(values), target, other)} ({first})")
    say(f"peak device memory of {n_rows:,} x {X.shape[1]}: {peak_bytes(ours, X, y) / 1e9:.2f} GB")


def run_evaluated(options: argparse.Namespace) -> None:
    """Training as most do it: an evaluation set, two metrics, every round; beside it the same without."""
    rows, other_rows = (60, 40) if SIMULATED else (20_000, 4_000) if options.quick else (1_000_000, 200_000)
    (X, y), other = table(rows, 4 if SIMULATED else 28), table(other_rows, 4 if SIMULATED else 28, seed=1)
    ours, rounds = Ours(options.threads), 2 if SIMULATED else ROUNDS
    data, watched = ours.matrix(X, y), ours.module.DMatrix(*other)
    params = {**PARAMS, "device": "cuda", "nthread": options.threads, "eval_metric": ["logloss", "auc"]}
    sets = {
        "without evals": [], "with an evaluation set": [(watched, "other")],
        "with the training set and an evaluation set": [(data, "train"), (watched, "other")],
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in sets}
    scores: dict[str, Any] = {}
    for _ in range(2 if SIMULATED else options.repeats):
        for name, evals in sets.items():
            scores.clear()
            spent, booster = seconds(
                lambda e=evals: ours.module.train(
                    params, data, rounds, evals=e, evals_result=scores, verbose_eval=False
                )
            )
            found[name].append(spent)
    for name, values in found.items():
        of = f" of {other_rows:,} rows, logloss and auc, every round" if sets[name] else ""
        say(f"train {rows:,} x {X.shape[1]} {name}{of}: {min(values):8.4f} s (first {values[0]:.3f})")
    booster.set_param("device", "cpu")
    line = "".join(f"\tother-{metric}:{values[-1]:.17f}" for metric, values in scores["other"].items())
    say(f"its last numbers are {'' if booster.eval(watched, 'other') == f'[0]{line}' else 'NOT '}the CPU's")


def peak_bytes(ours: Ours, X: np.ndarray, y: np.ndarray) -> int:
    """Most bytes of the device taken during a matrix, five rounds and a prediction, looked at every millisecond."""
    before, least, done = ours.device.free_bytes(), [ours.device.free_bytes()], threading.Event()

    def look() -> None:
        ours.device.use()
        while not done.wait(0.001):
            least[0] = min(least[0], ours.device.free_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        ours.predict(ours.train(ours.matrix(X, y), 2), X)
    finally:
        done.set()
        watcher.join()
    return before - least[0]


def cold_start(options: argparse.Namespace) -> None:
    """The first fit of this process; kernels of the CPU may be on disk, those of the device are compiled."""
    spent, ours = seconds(lambda: Ours(options.threads))
    say(f"import and device: {spent:.2f} s")
    X, y = table(100 if SIMULATED else 10_000, 5)
    for name in ("first fit of this process", "second"):
        spent, _ = seconds(lambda: ours.train(ours.matrix(X, y), 3))
        say(f"cold start: {name}: {spent:.2f} s")


def profile(options: argparse.Namespace) -> None:
    """Where the time goes: stages of the matrix, launches of a training, pieces of a prediction."""
    from arboost.kernels.gpu.device import Device, Launch
    from arboost.matrix.adapt import adapt
    from arboost.matrix.cuts import make_cuts, quantize_weight
    from arboost.matrix.device import DeviceValues

    ours = Ours(options.threads)
    n_rows = 60 if SIMULATED else 20_000 if options.quick else 1_000_000
    X, y = table(n_rows, 5 if SIMULATED else 28)

    def timed(name: str, work: Callable[[], Any]) -> Any:
        for _ in range(1 if SIMULATED else 3):
            spent, found = seconds(lambda: (work(), ours.device.wait())[0])
        say(f"profile {n_rows:,}: {name}: {1000 * spent:.2f} ms")
        return found

    def raw() -> Any:
        made = adapt(X)
        made.n_threads = options.threads
        return made

    timed("scan on the host", lambda: raw().scan(ours.ctx))
    values = timed("upload", lambda: DeviceValues(ours.device, raw()))
    bins = np.full(X.shape[1], 256)
    timed("count and pick", lambda: values.pick(quantize_weight(ours.ctx, n_rows, None), bins))
    cuts = timed("cuts, scan and upload", lambda: make_cuts(ours.ctx, raw(), None, 256))
    timed("bins", lambda: values.bins(cuts, np.dtype(np.uint8)))
    data = ours.matrix(X, y)
    calls: dict[str, list[float]] = {}

    def count(name: str, function: Callable) -> Callable:
        def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            spent, found = seconds(lambda: function(self, *args, **kwargs))
            calls.setdefault(name, []).append(spent)
            return found

        return counted

    ours.train(data, 2)
    kept = Device.run, Launch.__call__
    Device.run, Launch.__call__ = count("run", kept[0]), count("launch", kept[1])  # type: ignore[method-assign]
    try:
        for rounds in (1, 3) if SIMULATED else (1, 51):
            calls.clear()
            spent, booster = seconds(lambda n=rounds: ours.train(data, n))
            launches = ", ".join(f"{len(v)} {k}s {1000 * sum(v):.2f} ms" for k, v in calls.items())
            say(f"profile {n_rows:,}: train {rounds} rounds: {1000 * spent:.2f} ms; host in {launches}")
        timed("predict", lambda: ours.predict(booster, X))
        say(f"profile: {', '.join(f'{len(v)} {k}s {1000 * sum(v):.2f} ms' for k, v in calls.items())}")
    finally:
        Device.run, Launch.__call__ = kept  # type: ignore[method-assign]


def digests(options: argparse.Namespace) -> None:
    """Bytes of models of many kinds, from the CPU and from the device."""
    os.environ["ARBOOST_TEST_DEVICE"] = "simulator" if SIMULATED else "cuda"
    import hashlib

    import device_cases as cases

    equal = 0
    for name in KINDS[:2] if SIMULATED else KINDS:
        if out_of_time(options):
            say(f"digests: {name} and those after it are left out")
            break
        try:
            params, given = cases.ON_DEVICE[name]
            cpu, there = (cases.train(device, params, given, 3)[0] for device in ("cpu", "cuda"))
        except Exception as error:
            say(f"digest {name}: {type(error).__name__}: {error}")
            continue
        digest = [hashlib.sha256(model).hexdigest()[:16] for model in (cpu, there)]
        equal += digest[0] == digest[1]
        say(f"digest {name}: CPU {digest[0]}, device {digest[1]}: {'equal' if digest[0] == digest[1] else 'DIFFER'}")
    say(f"digests: {equal} kinds equal")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set; where pandas is not there, from a file that `--export` wrote."""
    path = Path(os.environ["ARBOOST_DATA"]) / f"{name}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return arrays["X"], arrays["y"]
    import datasets

    found = datasets.load(name)
    return found.X, found.y


def export(folder: Path) -> None:
    """The real data as compressed arrays, for a machine without pandas."""
    for name in ("covtype", "flights_3m"):
        X, y = load(name)
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y)


def real_data(options: argparse.Namespace) -> None:
    """covtype and flights_3m, from the matrix on, against our CPU."""
    import arboost

    if not os.environ.get("ARBOOST_DATA"):
        say("real data: ARBOOST_DATA is not set")
        return
    for name, rounds, more in (
        ("covtype", 30, {"objective": "multi:softprob", "num_class": 7}), ("flights_3m", 50, {}),
    ):  # fmt: skip
        X, y = load(name)
        X, y = (X[:60, :5], y[:60]) if SIMULATED else (X, y)
        rounds = 1 if SIMULATED else rounds
        raws, times = {}, {}
        for device in ("cuda", "cpu"):
            params = {**PARAMS, **more, "device": device, "nthread": options.threads}
            for _ in range(2):
                times[device], booster = seconds(
                    lambda p=params, d=X, t=y, n=rounds: arboost.train(p, arboost.DMatrix(d, t), n)
                )
            booster.set_param("device", "cpu")
            raws[device] = bytes(booster.save_raw())
        same = "the same bytes" if raws["cuda"] == raws["cpu"] else "OTHER BYTES"
        say(
            f"{name}, {len(y):,} x {X.shape[1]}, {rounds} rounds, matrix and training: device {times['cuda']:.3f} s, "
            f"{options.threads} threads {times['cpu']:.3f} s, ratio {times['cuda'] / times['cpu']:.2f}; {same}"
        )


def against_cpu(options: argparse.Namespace, name: str, work: Callable[[str], tuple[float, bytes]]) -> None:
    """The same work, which returns its seconds and bytes, on the device and on the CPU; the first run compiles."""
    found = {device: [work(device) for _ in range(2 if SIMULATED else options.repeats)] for device in ("cuda", "cpu")}
    there, cpu = (min(spent for spent, _ in runs) for runs in found.values())
    same = "the same bytes" if found["cuda"][-1][1] == found["cpu"][-1][1] else "OTHER BYTES"
    say(
        f"{name}: device {there:.4f} s (first {found['cuda'][0][0]:.3f}), {options.threads} threads {cpu:.4f} s, "
        f"ratio {there / cpu:.2f}; {same}"
    )


def explanations(options: argparse.Namespace) -> None:
    """Contributions of many rows, and interactions of some."""
    import arboost
    from arboost.predict import shap

    n_rows, n_trees, depth = (40, 2, 2) if SIMULATED else (2_000 if options.quick else 100_000, 100, 6)
    if SIMULATED:
        shap._DEVICE_WORK = 0
    X, y = table(n_rows, 4 if SIMULATED else 28)
    params = {**PARAMS, "max_depth": depth, "nthread": options.threads}
    booster, data = arboost.train(params, arboost.DMatrix(X, y), n_trees), arboost.DMatrix(X)
    some = data.slice(np.arange(max(1, n_rows // 10)))

    def explain(device: str, rows: Any, what: str) -> tuple[float, bytes]:
        booster.set_param("device", device)
        spent, found = seconds(lambda: booster.predict(rows, **{what: True}))
        return spent, found.tobytes()

    for rows, what in ((data, "pred_contribs"), (some, "pred_interactions")):
        name = f"{what} {rows.num_row():,} x {X.shape[1]}, {n_trees} trees of depth {depth}"
        against_cpu(options, name, lambda device, r=rows, w=what: explain(device, r, w))


def quantiles(options: argparse.Namespace) -> None:
    """Absolute error, whose leaves hold medians."""
    import arboost

    n_rows, rounds = (60, 2) if SIMULATED else (20_000 if options.quick else 1_000_000, ROUNDS)
    X, y = table(n_rows, 4 if SIMULATED else 28)
    label, data = y + X[:, 0], {}

    def train(device: str) -> tuple[float, bytes]:
        params = {**PARAMS, "objective": "reg:absoluteerror", "device": device, "nthread": options.threads}
        if device not in data:
            data[device] = arboost.DMatrix(X, label)
            arboost.train(params, data[device], 1)  # bins
        spent, booster = seconds(lambda: arboost.train(params, data[device], rounds))
        return spent, bytes(booster.save_raw())

    against_cpu(options, f"reg:absoluteerror {n_rows:,} x {X.shape[1]}, {rounds} rounds", train)


def ranking(options: argparse.Namespace) -> None:
    """rank:ndcg in groups of about 100, with pairs of the top ranks and with drawn ones."""
    import arboost

    n_rows = 60 if SIMULATED else 4_000 if options.quick else 200_000
    rng, rounds = np.random.default_rng(1), 2 if SIMULATED else ROUNDS
    X, _ = table(n_rows, 4 if SIMULATED else 40)
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows)
    qid = np.sort(rng.integers(0, max(1, n_rows // 100), n_rows))
    label, data = np.digitize(score, [0, 1, 2, 3]), {}

    def train(device: str, more: dict[str, Any]) -> tuple[float, bytes]:
        params = {**PARAMS, "objective": "rank:ndcg", "device": device, "nthread": options.threads, **more}
        if device not in data:
            data[device] = arboost.DMatrix(X, label, qid=qid)
            arboost.train(params, data[device], 1)  # bins
        spent, booster = seconds(lambda: arboost.train(params, data[device], rounds))
        return spent, bytes(booster.save_raw())

    for how in ("topk", "mean"):
        more = {"lambdarank_pair_method": how}
        name = f"rank:ndcg ({how}) {n_rows:,} x {X.shape[1]}, {rounds} rounds"
        against_cpu(options, name, lambda device, m=more: train(device, m))


def out_of_time(options: argparse.Namespace) -> bool:
    return time.perf_counter() - BEGAN > options.budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a thousandth of the rows, to see that it runs")
    parser.add_argument("--profile", action="store_true", help="where the time goes, before all else")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--budget", type=float, default=130.0, help="seconds after which nothing new is begun")
    parser.add_argument(
        "--only", default="", help="sections, by commas: cold,profile,sizes,evals,explain,rank,quantile,digests,real"
    )
    parser.add_argument("--export", type=Path, help="write the real data to this folder, no more")
    options = parser.parse_args()
    tests = Path(__file__).resolve().parent.parent / "tests"
    sys.path.insert(0, str(tests))
    warnings.simplefilter("ignore")
    if options.export:
        export(options.export)
        return
    sections: list[tuple[str, str, Callable[[], None]]] = [("cold", "cold start", lambda: cold_start(options))]
    if options.profile:
        sections.append(("profile", "profile", lambda: profile(options)))
    for size in SIZES:
        sections.append(("sizes", f"{size.n_rows:,} x {size.n_features}", lambda size=size: run_size(size, options)))
    sections.append(("evals", "evaluation", lambda: run_evaluated(options)))
    sections.append(("explain", "explanations", lambda: explanations(options)))
    sections.append(("rank", "ranking", lambda: ranking(options)))
    sections.append(("quantile", "quantiles", lambda: quantiles(options)))
    sections.append(("digests", "digests", lambda: digests(options)))
    sections.append(("real", "real data", lambda: real_data(options)))
    wanted = set(options.only.split(",")) - {""}
    for kind, name, section in sections:
        if wanted and kind not in wanted:
            continue
        if out_of_time(options):
            say(f"{name}: left out, the budget of {options.budget:.0f} s is spent")
            continue
        try:
            section()
        except Exception:
            say(f"{name}: failed")
            traceback.print_exc(file=sys.stdout)
    say("done")


if __name__ == "__main__":
    main()
