"""Explanations: SHAP values and interactions of one model, 100 trees of depth 6, and of 30 trees of depth 12.

Both libraries explain the model that XGBoost trained, loaded from its file, from a DMatrix made before.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from harness import Claim, Sample


def time_kind(title: str, model: Any, X: np.ndarray, options: Any, claim: Claim, **kind: bool) -> None:
    """Both libraries in turns; then how far the values' sums are from the margins, and the two libraries apart."""
    import xgboost

    import arboost

    boosters = {
        "arboost": (arboost.Booster({"nthread": options.threads}, model_file=model.save_raw()), arboost.DMatrix(X)),
        "xgboost": (xgboost.Booster({"nthread": options.threads}, model_file=model.save_raw()), xgboost.DMatrix(X)),
    }
    last: dict[str, np.ndarray] = {}

    def run(name: str) -> Callable[[], None]:
        booster, data = boosters[name]

        def explain() -> None:
            last[name] = booster.predict(data, **kind)

        return explain

    runs = {name: run(name) for name in boosters}
    runs["arboost"]()  # warm: compiles
    seconds = harness.interleave(runs, options.repeats)
    versions = {"arboost": arboost.__version__, "xgboost": xgboost.__version__}
    samples = [Sample(name, versions[name], seconds[name]) for name in boosters]
    harness.report(f"{title}, {len(X):,} x {X.shape[1]}", samples, options, claim, quality=None)
    for name, (booster, data) in boosters.items():
        sums = last[name].reshape(len(X), -1).sum(axis=1, dtype=np.float64)
        gap = np.abs(sums - booster.predict(data, output_margin=True)).max()
        print(f"  {name}: sums are at most {gap:.1e} from the margins")
    print(f"  the two are at most {np.abs(last['arboost'] - last['xgboost']).max():.1e} apart")


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=3, rows=10_000, pair_rows=100, features=28, train_rows=100_000, rounds=100, deep_rounds=30
    )
    harness.print_start()
    import xgboost

    X, y = harness.make_dense(options.train_rows, options.features)
    train = xgboost.DMatrix(X, y)
    params = {"objective": "binary:logistic", "nthread": options.threads}
    shallow = xgboost.train({**params, "max_depth": 6}, train, options.rounds)
    deep = xgboost.train({**params, "max_depth": 12}, train, options.deep_rounds)
    claim = Claim(1.0, 0.1, ("xgboost",))
    rows, few = X[: options.rows], X[: options.pair_rows]
    trees = f"{options.rounds} trees of depth 6"
    time_kind(f"SHAP values, {trees}", shallow, rows, options, claim, pred_contribs=True)
    time_kind(f"interactions, {trees}", shallow, few, options, claim, pred_interactions=True)
    half = Claim(1.0, 0.5, ("xgboost",))
    time_kind(f"approximate values, {trees}", shallow, rows, options, half, pred_contribs=True, approx_contribs=True)
    trees = f"{options.deep_rounds} trees of depth 12"
    time_kind(f"SHAP values, {trees}", deep, rows[: options.rows // 10], options, claim, pred_contribs=True)
    time_kind(f"one row, {options.rounds} trees of depth 6", shallow, X[:1], options, half, pred_contribs=True)


if __name__ == "__main__":
    main()
