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
from arboost.modelio.statistics_schema import PATH

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
    for i, group in enumerate(saved["groups"]):
        if len(group["features"]) == 1 and len(group["table"]) != n_rows * n_codes[int(group["features"][0])]:
            fail(f"{PATH}.groups[{i}].table", f"this version knows {n_rows - 1} statistics of every category")
    groups = [
        Group(tuple(g["features"].tolist()), g["keys"], np.ascontiguousarray(g["table"].reshape(n_rows, -1)))
        for g in saved["groups"]
    ]
    columns = (saved["num_columns"], n_codes, groups, saved["priors"].astype(np.float64))
    made = TargetStatistics(*columns, saved["feature_names"] or None, types)
    cats = saved["cats"] if any(saved["cats"].values()) else None
    return made, unpack_categories(cats, types)
