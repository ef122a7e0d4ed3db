"""Every parameter, once: XGBoost's names, aliases, defaults, bounds and choices, in our words.

Bounds and defaults are those of XGBoost 3.2 (tests compare them with the installed one). Parameters
that the engine cannot honour are listed too, so that they are known: `supported=False` refuses any value but
the default. `used_by` says which booster, objective or metric reads a parameter.
`python -m arboost parameters` prints the table as Markdown.
"""

import math
from dataclasses import replace

from arboost.params.extensions import EXTENSIONS
from arboost.params.spec import Param
from arboost.runtime.bytesize import ByteSize

OBJECTIVES = (
    "reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "reg:absoluteerror",
    "reg:quantileerror", "reg:expectileerror", "reg:gamma", "reg:tweedie",
    "binary:logistic", "binary:logitraw", "binary:hinge",
    "count:poisson",
    "survival:aft", "survival:cox",
    "multi:softmax", "multi:softprob",
    "rank:ndcg", "rank:map", "rank:pairwise",
)  # fmt: skip

LINEAR_UPDATERS = ("shotgun", "coord_descent")
TREE_GROWERS = {"exact": "grow_colmaker", "approx": "grow_histmaker", "hist": "grow_quantile_histmaker"}
TREE_MODIFIERS = ("refresh", "prune")

GROUPS = {
    "general": "General",
    "tree": "Trees",
    "learner": "Learning task",
    "loss": "Of particular losses and metrics",
    "dart": "DART booster",
    "linear": "Linear booster",
    "ranking": "Ranking",
    "survival": "Survival",
    "config": "Global configuration (`set_config`, `config_context`)",
}

_RANK = ("rank:ndcg", "rank:map", "rank:pairwise", "ndcg", "map", "pre")
_AFT = ("survival:aft", "aft-nloglik", "interval-regression-accuracy")
_WEIGHTED_POSITIVES = ("reg:squarederror", "reg:logistic", "reg:gamma", "binary:logistic", "binary:logitraw")

# fmt: off
_GENERAL = (
    Param(
        "booster", str, "gbtree", "What a round adds to the model: trees, trees with dropout, or a linear model.",
        choices=("gbtree", "dart", "gblinear"), complaint="Unknown booster",
    ),
    Param(
        "device", str, "cpu",
        "Where training runs: 'cuda' is an NVIDIA GPU (`pip install 'arboost[cuda]'`): the same model to the byte.",
        choices=("cpu", "cuda", "cuda:<ordinal>", "gpu", "gpu:<ordinal>"), complaint="Invalid argument for `device`",
    ),
    Param(
        "verbosity", int, 1,
        "How much is said on stderr: 0 nothing, 1 warnings, 2 information, 3 debugging. Not set: the global one.",
        lower=0, upper=3,
    ),
    Param("validate_parameters", bool, True, "Warn about parameters that are unknown or not used."),
    Param(
        "nthread", int, 0,
        "Threads; 0 or negative: all cores this process may use. At most 64, or twice the cores. Results stay equal.",
        aliases=("n_jobs",),
    ),
    Param("fail_on_invalid_gpu_id", bool, False, "Whether a missing GPU is an error.", has_effect=False),
)

_TREE = (
    Param(
        "eta", float, 0.3,
        "Learning rate: every leaf weight is multiplied by it before it joins the model. With `gblinear`: every step, "
        "0.5 unless set.",
        lower=0, upper=math.inf, upper_open=True, aliases=("learning_rate",),
    ),
    Param(
        "gamma", float, 0.0, "A split must lower the regularised loss by more than this, or it is pruned.",
        lower=0, aliases=("min_split_loss",),
    ),
    Param("max_depth", int, 6, "Levels of splits below the root; 0: no limit.", lower=0),
    Param("max_leaves", int, 0, "Most leaves of a tree; 0: no limit.", lower=0),
    Param(
        "min_child_weight", float, 1.0, "Each child of a split needs at least this sum of hessians (of weights).",
        lower=0,
    ),
    Param(
        "reg_lambda", float, 1.0, "L2 penalty on leaf weights. With `gblinear`: on weights, 0 unless set.",
        lower=0, aliases=("lambda",),
    ),
    Param(
        "reg_alpha", float, 0.0, "L1 penalty on leaf weights, or on weights of `gblinear`.",
        lower=0, aliases=("alpha",),
    ),
    Param(
        "max_delta_step", float, 0.0,
        "Largest size of a leaf weight before `eta`; 0: no limit. With `count:poisson` it is 0.7 unless set, and also "
        "tempers the hessian.",
        lower=0,
    ),
    Param("max_bin", int, 256, "Most bins a feature is cut into.", lower=2, upper=65535),
    Param(
        "grow_policy", str, "depthwise",
        "Which node is split next: the nearest to the root, or the one with the largest gain; or `symmetric`: all of "
        "a level by one condition, as CatBoost's trees (not in XGBoost, which reads such models).",
        choices=("depthwise", "lossguide", "symmetric"),
    ),
    Param("subsample", float, 1.0, "Fraction of the rows drawn anew for every tree.", lower=0, upper=1),
    Param(
        "sampling_method", str, "uniform",
        "How rows are drawn: all alike, or in proportion to sqrt(g^2 + lambda h^2), which allows for a smaller "
        "`subsample` (0.1 and more); or `goss` (LightGBM's): all rows with the largest gradients, and a random part "
        "of the others, re-weighted (not in XGBoost).",
        choices=("uniform", "gradient_based", "goss"),
    ),
    Param("colsample_bytree", float, 1.0, "Fraction of the features drawn for a tree.", lower=0, upper=1),
    Param("colsample_bylevel", float, 1.0, "Fraction of the tree's features drawn for a level.", lower=0, upper=1),
    Param("colsample_bynode", float, 1.0, "Fraction of the level's features drawn for a node.", lower=0, upper=1),
    Param(
        "tree_method", str, "auto",
        "How splits are found: `hist` (what `auto` means) on bins made once, `approx` on bins made every round, "
        "`exact` on sorted values.",
        choices=("auto", "exact", "approx", "hist"),
    ),
    Param(
        "sketch_eps", float, None,
        "With `tree_method=approx`: no bin between two candidates may hold more than this part of the weight, so "
        "about 1 / sketch_eps candidates per feature (at most 65,534). Not set: `max_bin` bins. XGBoost no longer has "
        "it.",
        lower=0, upper=1, lower_open=True, upper_open=True,
    ),
    Param(
        "sketch_proposal", str, "global",
        "With `tree_method=approx`: candidates are proposed once for a tree, or anew for every node from its own "
        "rows, which needs fewer of them. XGBoost has no such parameter.",
        choices=("global", "local"),
    ),
    Param("num_parallel_tree", int, 1, "Trees grown in every round: above 1, a boosted random forest.", lower=1),
    Param(
        "monotone_constraints", object, "()",
        "Per feature: 1 the prediction may only rise with it, -1 only fall, 0 free. A tuple, or a dict by name.",
    ),
    Param(
        "interaction_constraints", object, "",
        "Lists of features that may appear together on a path, by number or name.",
    ),
    Param(
        "updater", object, "",
        "Names of the steps that grow or change trees, separated by commas; follows from `tree_method` unless set. "
        "With `process_type=update`: `refresh` (statistics and leaves from new data), `prune` (take back splits that "
        "gain less than `gamma` or lie deeper than `max_depth`). With `gblinear`: `shotgun` or `coord_descent`, which "
        "are the same here.",
    ),
    Param(
        "process_type", str, "default",
        "Grow new trees, or go over the trees of an existing model (`xgb_model`) with the steps of `updater`.",
        choices=("default", "update"),
    ),
    Param("refresh_leaf", bool, True, "Whether refreshing a tree also changes its leaves."),
    Param(
        "max_cat_to_onehot", int, 4, "A categorical feature with fewer categories is split one against the rest.",
        lower=1,
    ),
    Param("max_cat_threshold", int, 64, "Most categories looked at for one split.", lower=1),
    Param(
        "max_cached_hist_node", int, 2**64 - 1,
        "Most histograms kept while a tree grows; arboost bounds that memory itself.",
        lower=1, upper=2**64 - 1, has_effect=False,
    ),
    Param(
        "enable_bundle", bool, True,
        "Whether features of which no row has two (one-hot columns, counts that are mostly zero) share a column while "
        "training: faster, the same model. LightGBM's name; XGBoost has no such parameter.",
    ),
    Param("extmem_single_page", bool, False, "Whether pages from disk are put together for a GPU.", has_effect=False),
    Param(
        "sparse_threshold", float, 0.2, "Density below which a column is stored sparsely.",
        lower=0, upper=1, has_effect=False,
    ),
    Param("debug_synchronize", bool, False, "Compare the trees of all workers; that is always done.", has_effect=False),
)

_LEARNER = (
    Param(
        "objective", str, "reg:squarederror", "The loss that is minimised, and the shape of the prediction.",
        choices=OBJECTIVES, complaint="Unknown objective function",
    ),
    Param(
        "base_score", tuple, None,
        "The prediction before the first tree: one number, or one per output. Not set: estimated from the labels.",
        lower=-math.inf, upper=math.inf, lower_open=True, upper_open=True,
    ),
    Param(
        "num_class", int, 0,
        "Number of classes of `multi:softmax` (the objective, if none is given), `multi:softprob` and custom ones.",
        lower=0,
    ),
    Param(
        "eval_metric", list, (),
        "Metrics to report on the evaluation sets, one or several; the last one decides early stopping. Not set: the "
        "objective's own.",
    ),
    Param(
        "disable_default_eval_metric", bool, False,
        "Do not report the objective's own metric when `eval_metric` is not set.",
    ),
    Param("seed", int, 0, "Seed of every random draw.", lower=-(2**63), upper=2**63 - 1, aliases=("random_state",)),
    Param("seed_per_iteration", bool, False, "Seed the draws of a round by its number."),
    Param(
        "multi_strategy", str, "one_output_per_tree",
        "With several outputs: a tree for each, or trees whose leaves hold all of them.",
        choices=("one_output_per_tree", "multi_output_tree"),
    ),
    Param(
        "unseen_category", str, "missing",
        "What a category that training did not have is at prediction: missing, or an error. Kept in the model.",
        choices=("missing", "error"),
    ),
    Param("num_feature", int, 0, "Number of features; taken from the data.", lower=0, has_effect=False),
    Param("num_target", int, 1, "Number of outputs; taken from the labels.", lower=1, has_effect=False),
    Param("boost_from_average", bool, True, "Whether `base_score` is estimated when it is not set.", has_effect=False),
)

_LOSS = (
    Param(
        "scale_pos_weight", float, 1.0, "Rows with label 1 weigh this many times more.",
        lower=0, upper=math.inf, upper_open=True, used_by=_WEIGHTED_POSITIVES,
    ),
    Param(
        "quantile_alpha", tuple, (), "The quantile to predict, or several (one output each).",
        lower=0, upper=1, used_by=("reg:quantileerror", "quantile"),
    ),
    Param(
        "quantile_crossing", str, "allow",
        "Whether the predicted quantiles of a row may be out of order: `forbid` sorts them, which never makes the "
        "pinball loss larger (not in XGBoost). Kept in the model.",
        choices=("allow", "forbid"), used_by=("reg:quantileerror",),
    ),
    Param(
        "expectile_alpha", tuple, (),
        "The expectile to predict, or several in rising order (one output each); they never cross.",
        lower=0, upper=1, used_by=("reg:expectileerror", "expectile"),
    ),
    Param(
        "tweedie_variance_power", float, 1.5,
        "Power of the mean that the variance follows: near 1 Poisson, near 2 gamma.",
        lower=1, upper=2, upper_open=True, used_by=("reg:tweedie",),
    ),
    Param(
        "huber_slope", float, 1.0, "Residual at which the pseudo-Huber loss turns from square to linear; not 0.",
        lower=-math.inf, upper=math.inf, lower_open=True, upper_open=True, used_by=("reg:pseudohubererror", "mphe"),
    ),
)

_DART = (
    Param(
        "sample_type", str, "uniform", "How dropped trees are chosen.",
        choices=("uniform", "weighted"), used_by=("dart",),
    ),
    Param(
        "normalize_type", str, "tree", "How new trees are weighed against the dropped ones.",
        choices=("tree", "forest"), used_by=("dart",),
    ),
    Param("rate_drop", float, 0.0, "Fraction of trees dropped in a round.", lower=0, upper=1, used_by=("dart",)),
    Param("one_drop", bool, False, "Always drop at least one tree.", used_by=("dart",)),
    Param("skip_drop", float, 0.0, "Probability of a round without dropout.", lower=0, upper=1, used_by=("dart",)),
)

_LINEAR = (
    Param(
        "feature_selector", str, "cyclic", "The order in which features are updated.",
        choices=("cyclic", "shuffle", "random", "greedy", "thrifty"), used_by=("gblinear",),
    ),
    Param("top_k", int, 0, "Features that `greedy` and `thrifty` select; 0: all.", lower=0, used_by=("gblinear",)),
    Param("tolerance", float, 0.0, "Stop when no weight moves more than this.", lower=0, used_by=("gblinear",)),
    Param("max_row_perbatch", int, 2**64 - 1, "Most rows in a batch.", lower=0, upper=2**64 - 1, used_by=("gblinear",)),
)

_RANKING = (
    Param(
        "lambdarank_pair_method", str, "topk", "How pairs are made: with the top documents, or at random.",
        choices=("topk", "mean"), used_by=_RANK,
    ),
    Param(
        "lambdarank_num_pair_per_sample", int, 2**32 - 1,
        "Pairs per document (`mean`), or the top documents to pair (`topk`); the default leaves it to the method.",
        lower=1, upper=2**32 - 1, used_by=_RANK,
    ),
    Param("lambdarank_normalization", bool, True, "Normalise the gradient of each group.", used_by=_RANK),
    Param(
        "lambdarank_score_normalization", bool, True,
        "Divide a pair's change of the metric by the difference of its scores.",
        used_by=_RANK,
    ),
    Param("lambdarank_unbiased", bool, False, "Correct for position bias in clicks.", used_by=_RANK),
    Param("lambdarank_bias_norm", float, 1.0, "Regularisation of the position bias.", lower=0, used_by=_RANK),
    Param("ndcg_exp_gain", bool, True, "Gain of a document: 2^label - 1, or the label.", used_by=_RANK),
)

_SURVIVAL = (
    Param(
        "aft_loss_distribution", str, "normal", "Distribution of the noise on the logarithm of time.",
        choices=("normal", "logistic", "extreme"), used_by=_AFT,
    ),
    Param("aft_loss_distribution_scale", float, 1.0, "Scale of that noise.", used_by=_AFT),
)

_CONFIG = (  # beside `verbosity`
    Param("nthread", int, 0, "Threads where a call does not say; 0: all cores this process may use."),
    Param("use_rmm", bool, False, "GPU memory manager; without effect on a CPU.", has_effect=False),
    Param("use_cuda_async_pool", bool, False, "GPU memory pool.", supported=False),
    Param("strict_parameters", bool, False, "Unknown or unused parameters are errors (not in XGBoost)."),
    Param(
        "memory_budget", ByteSize, 0,
        "Bytes that a training may take before data is kept on disk, also as `4GB` or `512MiB`; 0: three quarters of "
        "what the machine and the cgroup leave (not in XGBoost).",
    ),
)
# fmt: on

_ROWS = {
    "general": _GENERAL, "tree": _TREE + EXTENSIONS, "learner": _LEARNER, "loss": _LOSS, "dart": _DART,
    "linear": _LINEAR, "ranking": _RANKING, "survival": _SURVIVAL,
}  # fmt: skip
PARAMS: dict[str, Param] = {
    param.name: replace(param, group=group) for group, params in _ROWS.items() for param in params
}

ALIASES: dict[str, str] = {alias: param.name for param in PARAMS.values() for alias in param.aliases}

CONFIG_PARAMS: dict[str, Param] = {
    param.name: replace(param, group="config") for param in (PARAMS["verbosity"], *_CONFIG)
}

REMOVED = {"gpu_id": "`gpu_id` has been removed. Use `device` instead."}

HINTS = {
    # arguments of functions that are often put among the parameters
    "num_boost_round": "it is an argument of `train` and `cv`",
    "num_round": "use the argument `num_boost_round` of `train`",
    "num_rounds": "use the argument `num_boost_round` of `train`",
    "nrounds": "use the argument `num_boost_round` of `train`",
    "n_estimators": "use the argument `num_boost_round` of `train`",
    "early_stopping_rounds": "it is an argument of `train` and `cv`",
    "verbose_eval": "it is an argument of `train` and `cv`",
    "evals": "it is an argument of `train`",
    "missing": "it is an argument of `DMatrix`",
    "enable_categorical": "it is an argument of `DMatrix`",
    "feature_weights": "it is an argument of `DMatrix`",
    "base_margin": "it is an argument of `DMatrix`",
    # names that XGBoost once had
    "silent": 'use "verbosity"',
    "predictor": 'use "device"',
    "n_gpus": 'use "device"',
    # what other libraries call the same thing
    "num_leaves": 'use "max_leaves"',
    "max_leaf_nodes": 'use "max_leaves"',
    "depth": 'use "max_depth"',
    "min_sum_hessian_in_leaf": 'use "min_child_weight"',
    "min_gain_to_split": 'use "gamma"',
    "lambda_l1": 'use "reg_alpha"',
    "lambda_l2": 'use "reg_lambda"',
    "l2_leaf_reg": 'use "reg_lambda"',
    "feature_fraction": 'use "colsample_bytree"',
    "feature_fraction_bynode": 'use "colsample_bynode"',
    "bagging_fraction": 'use "subsample"',
    "border_count": 'use "max_bin"',
    "num_threads": 'use "nthread"',
    "thread_count": 'use "nthread"',
    "metric": 'use "eval_metric"',
    "loss_function": 'use "objective"',
}
