"""AUC on unseen rows against eps: candidates proposed for a tree (global) or a node (local), beside exact and hist.

The figure of the XGBoost paper's section 3.2: with local proposals a few candidates reach the accuracy of exact
search, with global ones it takes about ten times as many. Trained on flights (late or not) or, where the data sets
are not at hand, on synthetic rows. Prints a table and saves a plot (--plot).
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

import harness
from harness import datasets

EPS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002)
SLACK = 0.002  # of AUC: as good as exact


def load_rows(n_rows: int) -> tuple[str, np.ndarray, np.ndarray]:
    """(name, X, y) of a binary problem in which cuts matter."""
    try:
        data = datasets.load("flights_3m").sample(n_rows)
        return "flights_3m", np.asarray(data.X), data.y
    except datasets.DataUnavailable as reason:
        print(f"{reason}: synthetic rows instead")
        return "synthetic", *make_rows(n_rows)


def make_rows(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A label that depends on narrow bands of heavy-tailed features: what a node sees is not what the whole sees."""
    rng = np.random.default_rng(seed)
    X = np.exp(2 * rng.standard_normal((n_rows, 8))).astype(np.float32)
    z = np.sin(6 * np.log(X[:, 0])) * (X[:, 1] > 1) + np.sin(8 * np.log(X[:, 2])) * (X[:, 3] > 2) + np.log(X[:, 4]) / 2
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-2 * z))).astype(np.float32)


def auc(score: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half."""
    _, rank, counts = np.unique(score, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    positive = y == 1
    n_positive = int(positive.sum())
    above = middle[rank[positive]].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * (len(y) - n_positive)))


def score(X: np.ndarray, y: np.ndarray, options: Any, seed: int, more: dict[str, Any]) -> float:
    """Test AUC of one training on one split of the rows."""
    import arboost

    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(0.75 * len(y))])
    params = {"objective": "binary:logistic", "max_depth": options.depth, "eta": 0.3, "verbosity": 0}
    params |= {"nthread": options.threads, "max_bin": 256, **more}
    model = arboost.train(params, arboost.DMatrix(X[train], y[train]), options.rounds)
    return auc(model.inplace_predict(X[test]), y[test])


def first_as_good(found: dict[float, float], exact: float) -> float | None:
    """The largest eps whose AUC is that of exact search, give or take SLACK."""
    return max((eps for eps, value in found.items() if value >= exact - SLACK), default=None)


def draw(path: Path, title: str, found: dict[str, dict[float, float]], flat: dict[str, float]) -> None:
    """The figure: AUC against the number of candidates a feature, 1 / eps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    styles = {"local": ("#c2410c", "o"), "global": ("#1d4ed8", "s")}
    for kind, by_eps in found.items():
        colour, marker = styles[kind]
        x = [1 / eps for eps in by_eps]
        axes.plot(x, list(by_eps.values()), marker=marker, color=colour, label=f"approx, {kind} proposals", lw=2, ms=6)
    for (name, value), line in zip(flat.items(), ("--", ":"), strict=True):
        axes.axhline(value, color="#374151", ls=line, lw=1.3, label=f"{name}, AUC {value:.4f}")
    axes.set_xscale("log")
    ticks = [1 / eps for eps in EPS]
    axes.set_xticks(ticks, [f"{1 / eps:.0f}\n{eps:g}" for eps in EPS], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("candidates a feature, 1 / eps (log scale); below: eps")
    axes.set_ylabel("AUC on unseen rows")
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    options = harness.parse_options(
        __doc__,
        rows=(400_000, "rows drawn from the set, three quarters to train on"),
        rounds=20,
        depth=8,
        seeds=(3, "splits into training and test rows"),
        plot=("sketch_eps.png", "file of the plot"),
    )
    name, X, y = load_rows(options.rows)
    began = time.perf_counter()

    def mean(**more: Any) -> float:
        return float(np.mean([score(X, y, options, seed, more) for seed in range(options.seeds)]))

    flat = {"exact": mean(tree_method="exact"), "hist, 256 bins": mean(tree_method="hist")}
    found: dict[str, dict[float, float]] = {"local": {}, "global": {}}
    rows = [("eps", "candidates", "AUC global", "AUC local", "global - exact", "local - exact")]
    for eps in EPS:
        for kind, by_eps in found.items():
            by_eps[eps] = mean(tree_method="approx", sketch_eps=eps, sketch_proposal=kind)
        pair = found["global"][eps], found["local"][eps]
        lost = [f"{value - flat['exact']:+.5f}" for value in pair]
        rows.append((f"{eps:g}", f"{1 / eps:.0f}", *(f"{value:.5f}" for value in pair), *lost))
    splits = f"{options.seeds} split" + "s" * (options.seeds > 1)
    title = f"{name}: {len(y):,} x {X.shape[1]}, {options.rounds} rounds, depth {options.depth}, {splits}"
    print(f"\n{title}; {time.perf_counter() - began:.0f} s\n")
    harness.print_table(rows)
    print("  " + ", ".join(f"{what}: AUC {value:.5f}" for what, value in flat.items()))
    good = {kind: first_as_good(by_eps, flat["exact"]) for kind, by_eps in found.items()}
    for kind, eps in good.items():
        reached = "at no eps" if eps is None else f"with eps = {eps:g}, {1 / eps:.0f} candidates a feature"
        print(f"  {kind} proposals come within {SLACK} of exact {reached}")
    draw(Path(options.plot), title, found, flat)
    print(f"  plot: {options.plot}\n")
    verdict = {"text": str(good), "valid": not options.changed, "rival": "exact", "ratio": None}
    harness.print_result(f"auc against eps, {name}", [], options, verdict)


if __name__ == "__main__":
    main()
