"""Parameters of trees that XGBoost does not have, under the names that other libraries gave them."""

from arboost.params.spec import Param

EXTENSIONS = (
    Param(
        "top_rate",
        float,
        0.2,
        "With `sampling_method=goss`: part of the rows that are taken for their large gradients. Not in XGBoost.",
        lower=0,
        upper=1,
        used_by=("goss",),
    ),
    Param(
        "other_rate",
        float,
        0.1,
        "With `sampling_method=goss`: part of the rows that are drawn from all others; these count "
        "(1 - top_rate) / other_rate times. Not in XGBoost.",
        lower=0,
        upper=1,
        used_by=("goss",),
    ),
    Param(
        "min_data_in_leaf",
        int,
        0,
        "Each child of a split needs at least so many rows, those that weigh nothing not counted. LightGBM's; not in "
        "XGBoost.",
        lower=0,
    ),
    Param(
        "extra_trees",
        bool,
        False,
        "Whether one candidate of every feature is drawn for a node, instead of trying all: less variance, faster. "
        "LightGBM's; not in XGBoost.",
    ),
    Param(
        "path_smooth",
        float,
        0.0,
        "Draws the weight of a node towards that of its parent: a node of so many rows has half of each. Rows are "
        "counted by their hessians, as parts of the tree's. LightGBM's; not in XGBoost.",
        lower=0,
    ),
)
