"""Ensembles are the same to the bit for any number of threads, and in concurrent fits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from arboost.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

RNG = np.random.default_rng(9)
X = RNG.normal(size=(20_000, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
SCORE = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + 0.1 * RNG.normal(size=len(X))
THREE = np.digitize(SCORE, [0, 1.5])

CASES = [
    (RandomForestRegressor, {"n_estimators": 15, "max_depth": 6, "oob_score": True}, SCORE),
    (RandomForestClassifier, {"n_estimators": 5, "max_features": 2}, SCORE > 1),
    (RandomForestClassifier, {"n_estimators": 3, "max_leaf_nodes": 200}, THREE),
    (ExtraTreesRegressor, {"n_estimators": 3, "max_features": 2}, SCORE),
    (ExtraTreesClassifier, {"n_estimators": 5, "oob_score": True, "bootstrap": True}, THREE),
    (AdaBoostClassifier, {"n_estimators": 4}, THREE),
    (AdaBoostRegressor, {"n_estimators": 4}, SCORE),
    (GradientBoostingRegressor, {"n_estimators": 3, "loss": "huber", "subsample": 0.5}, SCORE),
    (GradientBoostingClassifier, {"n_estimators": 3}, THREE),
]


@pytest.mark.parametrize("kind, params, y", CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_threads_change_nothing(kind, params, y):
    files = {bytes(kind(n_jobs=n, **params).fit(X, y).get_booster().save_raw()) for n in (1, 3, 4)}
    # n_jobs is a parameter of the model, not a part of its file
    assert len(files) == 1


def test_forests_side_by_side():
    """Fits in threads of their own do not disturb each other."""

    def fit(seed):
        forest = RandomForestRegressor(n_estimators=4, max_depth=8, random_state=seed, n_jobs=2)
        return bytes(forest.fit(X, SCORE).get_booster().save_raw())

    alone = [fit(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(fit, range(3))) == alone
    assert len(set(alone)) == 3
