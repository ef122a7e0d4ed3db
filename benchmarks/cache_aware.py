"""Cache-aware access and block size (the XGBoost paper, sections 4.1 and 4.2, figures 7 and 9), in exact training.

The first table varies how many entries ahead gradient statistics are prefetched, from none, for tables whose gradients
fit the cache and for such that do not. The second varies how many entries are summed before they are scored: small
blocks pay for their overhead, large ones fall out of the cache. With --plot FILE both are drawn.
"""

import time
from typing import Any

import numpy as np

import harness

DISTANCES = (0, 2, 4, 8, 16, 32, 64, 128)
BLOCKS = (16, 64, 256, 512, 1024, 2048, 4096)


def time_trees(data: Any, settings: list[tuple[int, int]], options: Any) -> list[float]:
    """Least seconds of a tree under each (distance, block), in turns."""
    from arboost.levels.quantize import quantize
    from arboost.params.resolve import resolve
    from arboost.runtime.context import Context
    from arboost.tree.growers import ExactGrower

    ctx = Context(n_threads=options.threads)
    params = resolve({"tree_method": "exact", "max_depth": options.depth}).tree
    rng = np.random.default_rng(1)
    hessian = rng.uniform(0.05, 0.25, data.num_row()).astype(np.float32)
    gradients = quantize(ctx, (data.get_label() - 0.5 + hessian).astype(np.float32), hessian)
    assert data.raw is not None
    grower = ExactGrower(ctx, data.sorted(ctx), data.raw, params)
    seconds: list[list[float]] = [[] for _ in settings]
    grower.grow(gradients, None, 0)
    for turn in range(options.repeats):
        order = range(len(settings))
        for i in order if turn % 2 == 0 else reversed(order):
            grower.columns_engine.tune(*settings[i])
            began = time.perf_counter()
            grower.grow(gradients, None, 0)
            seconds[i].append(time.perf_counter() - began)
    return [min(values) for values in seconds]


def print_series(title: str, names: list[str], series: dict[str, list[float]]) -> None:
    """A table: a row for each shape, a column for each setting, milliseconds a tree and the ratio to the best."""
    print(f"\n{title}\n")
    rows = [["rows x features", *names]]
    for name, seconds in series.items():
        rows.append([name, *(f"{1e3 * s:.0f} ({s / min(seconds):.2f})" for s in seconds)])
    harness.print_table(rows)


def plot(path: str, parts: list[tuple[str, list[str], dict[str, list[float]]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(parts), figsize=(5 * len(parts), 4))
    for axis, (label, names, series) in zip(axes, parts, strict=True):
        for name, seconds in series.items():
            axis.plot(names, [s / min(seconds) for s in seconds], marker="o", label=name)
        axis.set_xlabel(label)
        axis.set_ylabel("time of a tree, relative to the best")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)
    print(f"drawn in {path}")


def main() -> None:
    options = harness.parse_options(
        __doc__,
        small=100_000,
        large=4_000_000,
        entries=(16_000_000, "values in every table"),
        depth=6,
        plot=("", "file to draw the figures in"),
    )
    import arboost

    harness.print_start()
    distances: dict[str, list[float]] = {}
    blocks: dict[str, list[float]] = {}
    for n_rows in (options.small, options.large):
        n_features = max(1, options.entries // n_rows)
        name = f"{n_rows:,} x {n_features}"
        X, y = harness.make_dense(n_rows, max(8, n_features))
        data = arboost.DMatrix(np.ascontiguousarray(X[:, :n_features]), y)
        del X
        settings = [(distance, 512) for distance in DISTANCES] + [(32, block) for block in BLOCKS]
        seconds = time_trees(data, settings, options)
        distances[name], blocks[name] = seconds[: len(DISTANCES)], seconds[len(DISTANCES) :]
        del data
    columns = ["none", *(str(distance) for distance in DISTANCES[1:])], [str(block) for block in BLOCKS]
    print_series("ms a tree by prefetch distance, in entries (over the best)", columns[0], distances)
    print_series("ms a tree by entries summed before they are scored (over the best)", columns[1], blocks)
    if options.plot:
        plot(
            options.plot,
            [
                ("entries between prefetch and use", columns[0], distances),
                ("entries in a block", columns[1], blocks),
            ],
        )


if __name__ == "__main__":
    main()
