"""Parameters of trees that XGBoost does not have, under the names that other libraries gave them."""

from arboost.params.spec import Param

# fmt: off
EXTENSIONS = (
    Param(
        "top_rate", float, 0.2,
        "With `sampling_method=goss`: part of the rows that are taken for their large gradients. Not in XGBoost.",
        lower=0, upper=1, used_by=("goss",),
    ),
    Param(
        "other_rate", float, 0.1,
        "With `sampling_method=goss`: part of the rows that are drawn from all others; these count (1 - top_rate) / "
        "other_rate times. Not in XGBoost.",
        lower=0, upper=1, used_by=("goss",),
    ),
    Param(
        "min_data_in_leaf", int, 0,
        "Each child of a split needs at least so many rows, those that weigh nothing not counted. LightGBM's; not in "
        "XGBoost.",
        lower=0,
    ),
    Param(
        "extra_trees", bool, False,
        "Whether one candidate of every feature is drawn for a node, instead of trying all: less variance, faster. "
        "LightGBM's; not in XGBoost.",
    ),
    Param(
        "path_smooth", float, 0.0,
        "Draws the weight of a node towards that of its parent: a node of so many rows has half of each. Rows are "
        "counted by their hessians, as parts of the tree's. LightGBM's; not in XGBoost.",
        lower=0,
    ),
    Param(
        "linear_leaves", bool, False,
        "Whether leaves are linear in the numerical features on their paths: for smooth targets. A row that lacks one "
        "of them gets the leaf's constant. LightGBM's `linear_tree`; XGBoost has no such parameter, and is refused "
        "models with linear leaves.",
        aliases=("linear_tree",),
    ),
    Param(
        "linear_lambda", float, 100.0,
        "With `linear_leaves`: L2 penalty on the weights in a leaf, of features scaled to variance 1: a leaf of so "
        "many rows has half of its slopes. LightGBM's, where it is 0 and nothing is scaled; not in XGBoost.",
        lower=0,
    ),
    Param(
        "cat_strategy", str, "auto",
        "What becomes of categorical features: `onehot` splits one category from the rest, `partition` finds sets of "
        "categories, `auto` is XGBoost's rule (`max_cat_to_onehot`), `ordered_ts` puts statistics of the label in the "
        "place of features of `max_cat_to_onehot` categories or more, as CatBoost does: for many categories. XGBoost "
        "has no such parameter, and is refused models of `ordered_ts`.",
        choices=("auto", "onehot", "partition", "ordered_ts"),
    ),
    Param(
        "permutation_count", int, 0,
        "With `cat_strategy=ordered_ts` or `boosting_type=ordered`: orders of the rows, one of which is drawn for "
        "each round. 0: 1 with `boosting_type=plain`, 4 with `ordered`.",
        lower=0, upper=64,
    ),
    Param(
        "max_cat_combination", int, 4,
        "With `cat_strategy=ordered_ts`: most categorical features that are combined to one; 1: none are.",
        lower=1, upper=8,
    ),
    Param(
        "split_outputs", int, 0,
        "With `multi_strategy=multi_output_tree`: splits are found on so many sums of all outputs' gradients, each "
        "with signs drawn for the round (SketchBoost's random projections): faster where outputs are many, and for "
        "classes often more accurate. Leaves have their weights from all outputs; gains and covers are of the sums. "
        "0, or no fewer than there are outputs: all outputs. Not in XGBoost.",
        lower=0,
    ),
    Param(
        "boosting_type", str, "plain",
        "Where splits' gradients come from: the model itself, or (`ordered`, as CatBoost) models that have not learnt "
        "from the row: slower, less overfitting on small data.",
        choices=("plain", "ordered"),
    ),
)
# fmt: on
