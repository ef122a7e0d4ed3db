"""How the time of training grows with rows, features, bins, depth and threads: arboost alone, one size at a time.

All sizes of a curve take turns, so that a slow moment of the machine falls on all of them; reported is the least time.
Curves but the last use one thread and count its CPU time, which neighbours on a shared machine disturb little. The last
is wall-clock time. Binning is timed apart from the rounds. Prints Markdown tables; --plot draws them.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import arboost as xgb
from arboost.runtime.context import available_threads


@dataclass(frozen=True)
class Size:
    """One training."""

    rows: int
    features: int = 28
    max_bin: int = 256
    depth: int = 6
    threads: int = 1


def curves(rows: int) -> dict[str, list[Size]]:
    """What is varied -> the sizes, all others as in the middle."""
    middle = Size(rows)
    cores = available_threads()
    threads = [n for n in (1, 2, 4, 8, 16, 32, 64) if n < cores] + [cores]
    return {
        "rows": [replace(middle, rows=rows * i // 8) for i in (1, 2, 4, 8, 16, 32)],
        "features": [replace(middle, features=n) for n in (7, 14, 28, 56, 112)],
        "max_bin": [replace(middle, max_bin=n) for n in (16, 64, 256, 1024, 4096)],
        "depth": [replace(middle, depth=n) for n in (2, 4, 6, 8, 10, 12)],
        "threads": [replace(middle, rows=rows * 4, threads=n) for n in threads],
    }


def make_data(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features; the label depends on seven of them, with interactions and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * X[:, 4] ** 2 + X[:, 5] * (X[:, 6] > 0)
    return X, (score + rng.standard_normal(rows, np.float32) > 0.5).astype(np.float32)


def measure(size: Size, rounds: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of binning, and of one round."""
    X, y = make_data(size.rows, size.features)
    start = clock()
    data = xgb.QuantileDMatrix(X, y, max_bin=size.max_bin, nthread=size.threads)
    binned = clock()
    params = {"objective": "binary:logistic", "max_depth": size.depth, "max_bin": size.max_bin, "nthread": size.threads}
    xgb.train(params, data, rounds)
    return binned - start, (clock() - binned) / rounds


def run_curve(name: str, sizes: list[Size], rounds: int, repeats: int) -> list[tuple[float, float]]:
    """The least times of every size."""
    clock = time.perf_counter if name == "threads" else time.process_time
    measure(sizes[-1], 1, clock)  # kernels are linked, threads are started
    taken = [[measure(size, rounds, clock) for size in sizes] for _ in range(repeats)]
    return [(min(t[i][0] for t in taken), min(t[i][1] for t in taken)) for i in range(len(sizes))]


def draw(results: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """The curves side by side, both axes logarithmic, with the line of proportional growth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(3.4 * len(results), 3.2), layout="constrained", squeeze=False, sharey=True
    )
    for ax, (name, points) in zip(axes[0], results.items()):
        x, ms = np.array(points).T
        power = -1 if name == "threads" else 1
        ax.plot(x, ms, "o-", color="#00796b")
        ax.plot(x, ms[0] * (x / x[0]) ** power, "--", color="#999999", lw=1)
        ax.set(title=name, xscale="log", yscale="log")
        ax.set_xticks(x, [f"{int(v):,}" for v in x], rotation=45)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    least, most = (reach(ms for points in results.values() for _, ms in points) for reach in (min, max))
    ticks = [t * 10.0**e for e in range(-2, 4) for t in (1, 2, 5) if least / 2 <= t * 10.0**e <= most * 2]
    axes[0, 0].set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes[0, 0].set_ylim(least / 1.5, most * 1.5)
    axes[0, 0].set_ylabel("milliseconds a round")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000, help="rows in the middle (default 50000)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--curves", default="rows,features,max_bin,depth,threads", help="which, separated by commas")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    options = parser.parse_args()
    print(f"middle: {options.rows:,} rows, 28 features, 256 bins, depth 6, one thread; {options.rounds} rounds")
    results: dict[str, list[tuple[int, float]]] = {}
    wanted = options.curves.split(",")
    for name, sizes in curves(options.rows).items():
        if name not in wanted:
            continue
        times = run_curve(name, sizes, options.rounds, options.repeats)
        values = [getattr(size, name) for size in sizes]
        results[name] = [(value, 1000 * each) for value, (_, each) in zip(values, times)]
        print(f"\n| {name} | " + " | ".join(f"{value:,}" for value in values) + " |")
        print("|---|" + "---|" * len(values))
        print("| ms a round | " + " | ".join(f"{1000 * each:.2f}" for _, each in times) + " |")
        print("| ms binning, once | " + " | ".join(f"{1000 * once:.1f}" for once, _ in times) + " |")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
