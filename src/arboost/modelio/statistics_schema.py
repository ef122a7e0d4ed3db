"""The rules that the object "target_statistics" of our files must obey; see `modelio/statistics.py`."""

import math
from typing import Any

import numpy as np

from arboost.modelio.schema import check_cats, fail

_MOST_KEYS = 2**62  # combinations of categories have a number each, of 64 bits
PATH = "learner.gradient_booster.target_statistics"


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
    if saved["cats"]:
        n_known = np.array(check_cats(saved["cats"], n_columns, f"{PATH}.cats"))[feature]
        if (n_known >= count).any():  # the last code is of rows that have none
            fail(f"{PATH}.codes.count", "there are more categories than codes")
    n_codes, total = dict(zip(feature.tolist(), count.tolist(), strict=True)), n_columns
    n_rows = 0
    for i, group in enumerate(saved["groups"]):
        n_own = _check_group(group, n_codes, f"{PATH}.groups[{i}]")
        if (n_own - 1) % len(saved["priors"]) or n_rows not in (0, n_own):
            fail(f"{PATH}.groups[{i}].table", "as many statistics for every class and every group were expected")
        n_rows = n_own
        total += n_own - (len(group["features"]) == 1)
    if total != n_features:
        fail(f"{PATH}.groups", f"they make {total} features, the model has {n_features}")


def _check_group(group: dict[str, Any], n_codes: dict[int, int], path: str) -> int:
    """How many numbers a group has for each of its categories."""
    features, keys, table = group["features"].tolist(), group["keys"], group["table"]
    if not features or len(set(features)) != len(features) or not set(features) <= set(n_codes):
        fail(f"{path}.features", "they must be categorical columns, each once")
    if math.prod(n_codes[f] for f in features) > _MOST_KEYS:
        fail(f"{path}.features", "the columns have more combinations than there are numbers")
    if (len(keys) > 0) != (len(features) > 1) or (len(keys) > 1 and (np.diff(keys) <= 0).any()):
        fail(f"{path}.keys", "a combination has ascending keys, a single column none")
    n_keys = len(keys) if len(features) > 1 else n_codes[features[0]]
    if len(table) < 2 * n_keys or len(table) % n_keys:
        fail(f"{path}.table", f"{len(table)} entries for {n_keys} categories")
    return len(table) // n_keys
