"""Target statistics of a model <-> the object "target_statistics" of our files, an extension of XGBoost's schema.

{"num_columns", "feature_names", "feature_types", "cats"  of the data, as XGBoost has them of a model
 "codes": {"feature", "count"}                            codes of each categorical column, the missing one included
 "priors": one for every class
 "groups": [{"features", "keys", "table"}]}               see `matrix.statistics.Group`
"""

from typing import Any

import numpy as np

from arboost.matrix.categories import Categories
from arboost.matrix.statistics import STRENGTHS, Group, TargetStatistics
from arboost.modelio.cats import pack_categories, unpack_categories
from arboost.modelio.schema import fail

PATH = "learner.gradient_booster.target_statistics"
_NO_CATS: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def pack_statistics(statistics: TargetStatistics | None, categories: Categories | None) -> dict[str, Any] | None:
    """The object of a file; None if there are no statistics."""
    if statistics is None:
        return None
    return {
        "cats": pack_categories(categories) or dict(_NO_CATS),
        "codes": {
            "count": np.array(list(statistics.n_codes.values()), np.int32),
            "feature": np.array(list(statistics.n_codes), np.int32),
        },
        "feature_names": list(statistics.feature_names or []),
        "feature_types": list(statistics.feature_types or []),
        "groups": [
            {"features": np.array(group.features, np.int32), "keys": group.keys, "table": group.table.ravel()}
            for group in statistics.groups
        ],
        "num_columns": statistics.n_columns,
        "priors": statistics.priors.astype(np.float32),
    }


def unpack_statistics(saved: dict[str, Any]) -> tuple[TargetStatistics, Categories | None]:
    """Statistics, and the categories of the data, from an object that `check_statistics` has accepted."""
    n_codes = dict(zip(saved["codes"]["feature"].tolist(), saved["codes"]["count"].tolist(), strict=True))
    types = saved["feature_types"] or None
    n_rows = len(saved["priors"]) * len(STRENGTHS) + 1
    groups = [
        Group(tuple(g["features"].tolist()), g["keys"], np.ascontiguousarray(g["table"].reshape(n_rows, -1)))
        for g in saved["groups"]
    ]
    columns = (saved["num_columns"], n_codes, groups, saved["priors"].astype(np.float64))
    made = TargetStatistics(*columns, saved["feature_names"] or None, types)
    cats = saved["cats"] if any(saved["cats"].values()) else None
    return made, unpack_categories(cats, types)


def check_statistics(saved: dict[str, Any], n_features: int) -> None:
    """Raise ModelFileError, naming the field, unless statistics make as many columns as the trees have features."""
    n_columns, codes = saved["num_columns"], saved["codes"]
    for name in ("feature_names", "feature_types"):
        if len(saved[name]) not in (0, n_columns):
            fail(f"{PATH}.{name}", f"{len(saved[name])} entries for {n_columns} columns")
    feature, count = codes["feature"], codes["count"]
    if len(feature) != len(count) or len(set(feature.tolist())) != len(feature):
        fail(f"{PATH}.codes", "a count for every feature, each once, was expected")
    if len(feature) and (feature.min() < 0 or feature.max() >= n_columns or count.min() < 1):
        fail(f"{PATH}.codes", f"features are 0 to {n_columns - 1} and have codes")
    if not len(saved["priors"]):
        fail(f"{PATH}.priors", "there must be one")
    n_codes, total = dict(zip(feature.tolist(), count.tolist(), strict=True)), n_columns
    for i, group in enumerate(saved["groups"]):
        total += _check_group(group, n_codes, len(saved["priors"]) * len(STRENGTHS) + 1, f"{PATH}.groups[{i}]")
    if total != n_features:
        fail(f"{PATH}.groups", f"they make {total} features, the model has {n_features}")


def _check_group(group: dict[str, Any], n_codes: dict[int, int], n_rows: int, path: str) -> int:
    """How many columns a group adds to the data's."""
    features, keys, table = group["features"].tolist(), group["keys"], group["table"]
    if not features or len(set(features)) != len(features) or not set(features) <= set(n_codes):
        fail(f"{path}.features", "they must be categorical columns, each once")
    if (len(keys) > 0) != (len(features) > 1) or (len(keys) > 1 and (np.diff(keys) <= 0).any()):
        fail(f"{path}.keys", "a combination has ascending keys, a single column none")
    n_keys = len(keys) if len(features) > 1 else n_codes[features[0]]
    if len(table) != n_rows * n_keys:
        fail(f"{path}.table", f"{len(table)} entries for {n_rows} statistics of {n_keys} categories")
    return n_rows - (len(features) == 1)
