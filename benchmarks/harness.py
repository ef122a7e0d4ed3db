"""What every benchmark shares: options, data, interleaved timing, the table, the result line.

A run times all libraries in one process, in turns (A B C, B C A, ...), so that a slow moment of the machine falls on
all of them. Reported are the least and the median seconds; ratios are of least times. How each library is told the
same work stands in the package's `demo/peers.py`. A claim is judged only at its own sizes, on a machine that nobody
else used, and where arboost learned as well as the others.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import datasets  # noqa: E402, F401  (the scripts take it from here)
from arboost.demo.peers import ARBOOST, PEERS, Peer, Work, interleave  # noqa: E402
from arboost.demo.tour import print_table  # noqa: E402

MAX_OTHERS = 0.1  # cores that other processes may use on average during a run whose figures count
MAX_LOSS = 1.01  # arboost's loss on unseen rows over the worst peer's

EQUAL_LIMITS = (
    "equal limits: same rounds, eta, depth or leaves, 256 bins (255: LightGBM, HGB, CatBoost, chimeraboost), L2 = 1,\n"
    "child hessian >= 1 (LightGBM min_sum_hessian_in_leaf=1), no minimum of rows (LightGBM min_data_in_leaf=0,\n"
    "feature_pre_filter=False), no sampling, no early stopping; CatBoost Plain, one Newton step"
)


@dataclass(frozen=True)
class Claim:
    """What the README promises: arboost's figure over the rival's is at most `must`, and we aim at `aim`."""

    must: float
    aim: float
    rivals: tuple[str, ...] = ()  # names of peers; empty = all of them

    def covers(self, name: str) -> bool:
        return not self.rivals or name in self.rivals


@dataclass
class Sample:
    """The measurements of one library."""

    name: str
    version: str
    values: list[float] = field(default_factory=list)
    quality: float | None = None

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def parse_options(description: str, repeats: int = 3, **extra: Any) -> argparse.Namespace:
    """Options common to all scripts, plus `extra`: name=default or name=(default, help).

    Thread limits go into the environment here, before any library is imported. `options.changed` names the sizes that
    are not the claim's.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="threads of every library (default 2)")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"timed runs of each library (default {repeats})")
    parser.add_argument("--peers", default="all", help="names separated by commas, 'all' or 'none' (default all)")
    parser.add_argument("--json", type=Path, help="also append the result line to this file")
    for name, default in extra.items():
        value, text = default if isinstance(default, tuple) else (default, None)
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parser.add_argument(option, action="store_true", help=text)
        else:
            parser.add_argument(option, type=type(value), default=value, help=f"{text or name} (default {value})")
    options = parser.parse_args()
    sizes = [name for name in extra if not isinstance(parser.get_default(name), bool | str)]
    options.changed = [name for name in sizes if getattr(options, name) != parser.get_default(name)]
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    os.environ["CHIMERABOOST_NO_NOTICE"] = "1"
    return options


def choose_libraries(option: str, best_first: bool = False) -> list[Peer]:
    """arboost and the peers asked for that are installed; says which are left out and why."""
    wanted = {name.strip() for name in option.split(",")}
    unknown = wanted - {"all", "none"} - {peer.name for peer in PEERS}
    if unknown:
        raise SystemExit(f"unknown peers {sorted(unknown)}; known: {', '.join(peer.name for peer in PEERS)}")
    chosen = []
    for peer in (ARBOOST, *PEERS):
        if peer is not ARBOOST and "all" not in wanted and peer.name not in wanted:
            continue
        if not is_usable(peer):
            print(f"left out: {peer.name} (not installed)")
        elif best_first and not peer.has_best_first:
            print(f"left out: {peer.name} (no best-first growth)")
        else:
            chosen.append(peer)
    return chosen


def is_usable(peer: Peer) -> bool:
    """Installed; arboost also needs to be more than a checkout without `train`."""
    if peer is ARBOOST:
        import arboost

        return hasattr(arboost, "train")
    return peer.is_installed


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, memory and versions: without them a figure means nothing."""
    model = platform.processor() or platform.machine()
    cpuinfo, meminfo = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    memory = int(meminfo.read_text().split()[1]) // 2**20 if meminfo.exists() else None
    from arboost.runtime.context import available_threads

    return {
        "cpu": model,
        "cores": available_threads(),
        "memory_gib": memory,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def make_dense(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal features float32, a label drawn from a logistic of a linear part and two interactions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    z = X @ rng.standard_normal(n_features) * 0.3 + X[:, 0] * X[:, 1] + np.abs(X[:, 6]) * X[:, 7]
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.float32)
    return X, y


def logloss(prediction: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-likelihood of probabilities of class 1."""
    p = np.clip(np.asarray(prediction, np.float64), 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def time_fits(
    libraries: Sequence[Peer],
    data: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    work: Work,
    repeats: int,
) -> list[Sample]:
    """Fit every library for two rounds to warm up, then in turns; the last models are scored on `test`."""
    X, y = data
    models: dict[str, Any] = {}
    for peer in libraries:
        peer.fit(
            X[:5000], y[:5000], Work(work.objective, 2, work.depth, work.leaves, work.eta, work.bins, work.threads)
        )

    def run(peer: Peer) -> Callable[[], None]:
        def fit() -> None:
            models[peer.name] = None  # the last model's memory is free before the next fit
            models[peer.name] = peer.fit(X, y, work)

        return fit

    seconds = interleave({peer.name: run(peer) for peer in libraries}, repeats)
    samples = []
    for peer in libraries:
        quality = logloss(np.asarray(peer.predict(models[peer.name], test[0])), test[1])
        samples.append(Sample(peer.name, peer.version, seconds[peer.name], quality))
    return samples


def report(
    title: str,
    samples: Sequence[Sample],
    options: argparse.Namespace,
    claim: Claim | None = None,
    unit: str = "s",
    scale: float = 1.0,
    quality: str | None = "test logloss",
    timed: bool = True,
) -> None:
    """Print the table, the verdict on the claim and the result line."""
    own = next((sample for sample in samples if sample.name == ARBOOST.name), None)
    heading = ["library", "version", f"min {unit}", f"median {unit}", "arboost / it"] + ([quality] if quality else [])
    rows = [heading]
    for sample in samples:
        ratio = f"{own.least / sample.least:.2f}" if own else "-"
        row = [sample.name, sample.version, _digits(sample.least * scale), _digits(sample.median * scale), ratio]
        rows.append(row + ([f"{sample.quality:.5f}" if sample.quality is not None else "-"] if quality else []))
    print(f"\n{title}; {options.threads} threads, {len(samples[0].values)} runs each\n")
    print_table(rows)
    verdict = judge(own, samples, claim, options, timed) if own and claim else None
    if verdict:
        print(f"  {verdict['text']}\n")
    print_result(title, samples, options, verdict)


def _digits(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def judge(
    own: Sample, samples: Sequence[Sample], claim: Claim, options: argparse.Namespace, timed: bool
) -> dict[str, Any] | None:
    """arboost against the best of the claim's rivals, or why the run cannot tell."""
    rivals = [sample for sample in samples if sample is not own and claim.covers(sample.name)]
    if not rivals:
        return None
    best = min(rivals, key=lambda sample: sample.least)
    ratio = own.least / best.least
    doubts = find_doubts(options, timed)
    losses = [sample.quality for sample in samples if sample is not own and sample.quality is not None]
    if own.quality is not None and losses and own.quality > MAX_LOSS * max(losses):
        doubts.append(f"arboost learned less (loss {own.quality:.5f}, the worst peer {max(losses):.5f})")
    missing = [peer.name for peer in PEERS if claim.covers(peer.name) and peer.name not in {s.name for s in samples}]
    doubts += [f"not compared with {', '.join(missing)}"] if missing else []
    return conclude(f"arboost / {best.name}", ratio, claim, doubts, rival=best.name)


def conclude(
    what: str, value: float, claim: Claim, doubts: Sequence[str], rival: str | None = None, unit: str = ""
) -> dict[str, Any]:
    """The verdict in words and numbers; doubts make it no verdict."""
    word = "reaches the aim" if value <= claim.aim else "holds" if value <= claim.must else "MISSED"
    word = f"NO VERDICT: {'; '.join(doubts)}" if doubts else word
    text = f"{what} = {value:.2f}{unit}; must be <= {claim.must:.2f}{unit}, aim {claim.aim:.2f}{unit}: {word}"
    return {
        "rival": rival,
        "ratio": round(value, 4),
        "must": claim.must,
        "aim": claim.aim,
        "valid": not doubts,
        "text": text,
    }


def find_doubts(options: argparse.Namespace, timed: bool = True) -> list[str]:
    """Reasons not to believe this run: other sizes than the claim's or, for times, others at work on the machine."""
    doubts = [f"not the claim's sizes ({', '.join(options.changed)})"] if options.changed else []
    others = cores_used_by_others()
    if timed and others is not None and others > MAX_OTHERS:
        doubts.append(f"other processes used {others:.1f} cores")
    return doubts


def _busy_seconds() -> tuple[float, float, float] | None:
    """(now, seconds of all cores at work since boot, those of this process and its children); None without /proc."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    fields = [int(number) for number in stat.read_text().splitlines()[0].split()[1:]]
    busy = (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")  # all but idle, iowait and guest
    times = os.times()
    return time.perf_counter(), busy, times.user + times.system + times.children_user + times.children_system


_BEGAN = _busy_seconds()


def cores_used_by_others() -> float | None:
    """Cores that other processes (stolen time included) have used on average since this script began."""
    now = _busy_seconds()
    if _BEGAN is None or now is None:
        return None
    elapsed, busy, own = (b - a for a, b in zip(_BEGAN, now, strict=True))
    return max(0.0, (busy - own) / max(elapsed, 1e-9))


def print_result(title: str, samples: Sequence[Sample], options: argparse.Namespace, verdict: Any = None) -> None:
    """One line of JSON with everything above, for tools; also appended to --json."""
    result = {
        "benchmark": title,
        "threads": options.threads,
        "machine": machine(),
        "cores_used_by_others": cores_used_by_others(),
        "verdict": verdict,
        "samples": {
            s.name: {"version": s.version, "values": [round(v, 9) for v in s.values], "quality": s.quality}
            for s in samples
        },
    }
    line = json.dumps(result)
    print(line)
    if options.json:
        with options.json.open("a") as file:
            file.write(line + "\n")


def print_start() -> None:
    """The machine and the rules of the comparison."""
    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, {here['memory_gib']} GiB, Python {here['python']}")
    print(EQUAL_LIMITS)
