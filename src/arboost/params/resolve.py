"""From what a user wrote to frozen, typed parameters: after this no string of theirs travels.

`normalize` gives canonical names to raw values (what a Booster keeps), `merge` adds later ones, `resolve` checks
everything and returns the tuples that the engine reads. Where two spellings of one parameter are given at once the
alphabetically later one is taken, as XGBoost does, with a warning if they disagree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from arboost.params.spec import closest
from arboost.params.table import ALIASES, HINTS, LINEAR_UPDATERS, PARAMS, REMOVED, TREE_GROWERS, TREE_MODIFIERS
from arboost.runtime import settings
from arboost.runtime.device import ordinal_of, why_not
from arboost.runtime.errors import XGBoostError

ParamsLike = Mapping[str, Any] | Iterable[tuple[str, Any]] | None

POISSON_MAX_DELTA_STEP = 0.7
MAX_SYMMETRIC_DEPTH = 16  # levels double the nodes, all of which have histograms at a time


class TreeParams(NamedTuple):
    """What a grower reads. Floats are float32 values."""

    eta: float
    gamma: float
    max_depth: int
    max_leaves: int
    min_child_weight: float
    min_data_in_leaf: int
    extra_trees: bool
    path_smooth: float
    linear_leaves: bool
    linear_lambda: float
    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    max_bin: int
    grow_policy: str
    subsample: float
    sampling_method: str
    top_rate: float
    other_rate: float
    colsample_bytree: float
    colsample_bylevel: float
    colsample_bynode: float
    num_parallel_tree: int
    tree_method: str
    sketch_eps: float | None  # None: max_bin
    sketch_proposal: str
    process_type: str
    updater: tuple[str, ...]  # steps that the user named; none: those of tree_method
    refresh_leaf: bool
    max_cat_to_onehot: int
    max_cat_threshold: int
    monotone_constraints: Any  # as the user wrote them: names need the data
    interaction_constraints: Any
    enable_bundle: bool
    cat_strategy: str
    permutation_count: int
    max_cat_combination: int
    split_outputs: int
    boosting_type: str


def count_permutations(params: TreeParams) -> int:
    """Orders of the rows: as many as asked for, else one, or four where boosting is ordered."""
    return params.permutation_count or (4 if params.boosting_type == "ordered" else 1)


class DartParams(NamedTuple):
    """What dropout reads."""

    sample_type: str
    normalize_type: str
    rate_drop: float
    one_drop: bool
    skip_drop: float


class LinearParams(NamedTuple):
    """What coordinate descent reads. Floats are float32 values."""

    eta: float
    reg_lambda: float
    reg_alpha: float
    updater: str
    feature_selector: str
    top_k: int
    tolerance: float


class LearnerParams(NamedTuple):
    """What the round loop, losses and metrics read."""

    booster: str
    objective: str
    base_score: float | tuple[float, ...] | None
    num_class: int
    eval_metric: tuple[str, ...]
    disable_default_eval_metric: bool
    seed: int
    seed_per_iteration: bool
    nthread: int  # 0 or negative: all cores
    device: str
    verbosity: int
    validate_parameters: bool
    scale_pos_weight: float
    quantile_alpha: tuple[float, ...]
    quantile_crossing: str
    expectile_alpha: tuple[float, ...]
    aft_loss_distribution: str
    aft_loss_distribution_scale: float
    tweedie_variance_power: float
    huber_slope: float
    max_delta_step: float  # the Poisson loss's
    multi_strategy: str
    unseen_category: str
    lambdarank_pair_method: str
    lambdarank_num_pair_per_sample: int  # 2**32 - 1: the pair method's own default
    lambdarank_normalization: bool
    lambdarank_score_normalization: bool
    lambdarank_unbiased: bool
    lambdarank_bias_norm: float
    ndcg_exp_gain: bool


@dataclass(frozen=True)
class Resolved:
    """Checked parameters. `given` holds the typed values the user set, by canonical name."""

    tree: TreeParams
    learner: LearnerParams
    dart: DartParams
    linear: LinearParams
    given: Mapping[str, Any]
    unknown: tuple[str, ...]  # names nobody knows
    unused: tuple[str, ...]  # known names that nothing reads with this booster, objective and metrics


class _Collected(NamedTuple):
    """Raw values by canonical name, the names as the user spelled them, and disagreements of aliases."""

    values: dict[str, Any]
    spelled: dict[str, str]
    conflicts: list[str]


_TREE_FIELDS = frozenset(TreeParams._fields)
_LEARNER_FIELDS = frozenset(LearnerParams._fields)
_DART_FIELDS = frozenset(DartParams._fields)
_LINEAR_DEFAULTS = LinearParams(0.5, 0.0, 0.0, LINEAR_UPDATERS[0], "cyclic", 0, 0.0)  # not those of trees
_CATEGORY_LIMITS = {"onehot": 2**31 - 1, "partition": 1}  # strategies as XGBoost's max_cat_to_onehot
_NOT_FOR_TREES_ALONE = frozenset({"eta", "reg_lambda", "reg_alpha", "updater"})


def _default(name: str) -> Any:
    """A table default as the parser would return it (floats rounded to float32)."""
    param = PARAMS[name]
    return param.parse(param.default) if param.type is float and param.default is not None else param.default


_TREE_DEFAULTS = TreeParams(**{name: _default(name) for name in TreeParams._fields})._replace(updater=())
_LEARNER_DEFAULTS = LearnerParams(**{name: _default(name) for name in LearnerParams._fields})
_DART_DEFAULTS = DartParams(**{name: _default(name) for name in DartParams._fields})


def normalize(params: ParamsLike) -> dict[str, Any]:
    """Raw values by canonical name; None means not set; repeated `eval_metric` become one list."""
    return _collect(params).values


def merge(old: Mapping[str, Any], new: ParamsLike) -> dict[str, Any]:
    """`old` (normalized) with later parameters: each replaces the earlier value, `eval_metric` is added to it."""
    values = normalize(new)
    if "eval_metric" in values and "eval_metric" in old:
        values["eval_metric"] = _as_list(old["eval_metric"]) + _as_list(values["eval_metric"])
    return {**old, **values}


def resolve(params: ParamsLike, warn: bool = True) -> Resolved:
    """Check parameters and freeze them.

    Parameters
    ----------
    params :
        A dict or a list of (name, value) pairs, under XGBoost's names or aliases; values may be strings.
    warn :
        Warn about unknown or unused names (unless `validate_parameters` is off or verbosity is 0). Under
        `config_context(strict_parameters=True)` they are errors in any case.
    """
    values, spelled, conflicts = _collect(params)
    if "objective" in values:
        values["objective"] = _objective(values["objective"], warn)
    elif PARAMS["num_class"].parse(values.get("num_class", 0), "num_class") > 1:
        values["objective"], spelled["objective"] = "multi:softmax", "objective"  # as XGBoost has it
    unknown = tuple(sorted(name for name in values if name not in PARAMS))
    selected = _selected(values)
    unused = tuple(sorted(name for name in values if name in PARAMS and not _is_used(name, selected)))
    given = {
        name: PARAMS[name].parse(value, spelled[name])
        for name, value in values.items()
        if name in PARAMS and name not in unused
    }
    if given.get("device", "cpu") != "cpu":
        reason = why_not(ordinal_of(given["device"]))
        if reason:
            if warn and given.get("verbosity", 1) > 0:
                settings.warn(f"Device is changed from {given['device']} to CPU: {reason}.")
            given["device"] = "cpu"
    resolved = _freeze(given, unknown, unused)
    if unknown or unused or conflicts:
        _report(resolved, [spelled[name] for name in (*unknown, *unused)], conflicts, warn)
    return resolved


def _collect(params: ParamsLike) -> _Collected:
    collected = _Collected({}, {}, [])
    values, spelled, _ = collected
    for name, value in _pairs(params):
        if value is None:
            continue
        if not isinstance(name, str):
            raise TypeError(f"Names of parameters are strings, got {name!r}.")
        if name in REMOVED:
            raise XGBoostError(REMOVED[name])
        canonical = ALIASES.get(name, name)
        if canonical in values:
            _put_again(collected, canonical, name, value)
            continue
        values[canonical] = value
        spelled[canonical] = name
    return collected


def _pairs(params: ParamsLike) -> Iterable[tuple[str, Any]]:
    if params is None:
        return ()
    if isinstance(params, Mapping):
        return params.items()
    if isinstance(params, str) or not isinstance(params, Iterable):
        raise TypeError(f"Parameters are a dict or a list of (name, value) pairs, got {type(params).__name__}.")
    pairs = [tuple(pair) for pair in params]
    if any(len(pair) != 2 for pair in pairs):
        raise TypeError("Parameters given as a list are (name, value) pairs.")
    return pairs


def _put_again(collected: _Collected, canonical: str, name: str, value: Any) -> None:
    """A parameter given twice: metrics add up, a repeated name replaces, of two spellings the later letter wins."""
    values, spelled, conflicts = collected
    earlier, earlier_value = spelled[canonical], values[canonical]
    if canonical == "eval_metric":
        values[canonical] = _as_list(earlier_value) + _as_list(value)
    elif name >= earlier:
        values[canonical], spelled[canonical] = value, name
    if name != earlier and str(value) != str(earlier_value):
        kept = spelled[canonical]
        conflicts.append(
            f'"{earlier}" and "{name}" are one parameter with two values; {values[canonical]!r} ("{kept}") is used'
        )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _objective(value: Any, warn: bool) -> Any:
    """The objective's present name; a function belongs elsewhere."""
    if callable(value):
        raise XGBoostError(f"objective takes a name; pass the function {value!r} as `obj` to `train`.")
    if isinstance(value, str) and value == "reg:linear":
        if warn:
            settings.warn("reg:linear is now deprecated in favor of reg:squarederror.")
        return "reg:squarederror"
    return value


def _selected(values: Mapping[str, Any]) -> set[str]:
    """Names of the booster, objective, metrics (without @argument or "-") and sampling that these parameters choose."""
    metrics = [str(name).partition("@")[0].rstrip("-") for name in _as_list(values.get("eval_metric", ()))]
    return {
        str(values.get("booster", _LEARNER_DEFAULTS.booster)),
        str(values.get("objective", _LEARNER_DEFAULTS.objective)),
        str(values.get("sampling_method", _TREE_DEFAULTS.sampling_method)),
        *metrics,
    }


def _is_used(name: str, selected: set[str]) -> bool:
    used_by = PARAMS[name].used_by
    if "gblinear" in selected and PARAMS[name].group == "tree" and name not in _NOT_FOR_TREES_ALONE:
        return name == "max_delta_step" and "count:poisson" in selected
    return not used_by or not selected.isdisjoint(used_by)


def _freeze(given: dict[str, Any], unknown: tuple[str, ...], unused: tuple[str, ...]) -> Resolved:
    current = settings.current()
    learner: dict[str, Any] = {"verbosity": current.verbosity, "nthread": current.nthread}
    learner.update((name, value) for name, value in given.items() if name in _LEARNER_FIELDS)
    tree = {name: value for name, value in given.items() if name in _TREE_FIELDS and name != "updater"}
    if learner.get("booster", _LEARNER_DEFAULTS.booster) != "gblinear":
        tree |= _steps(given.get("updater", ""), tree.get("process_type", "default"))
    if tree.get("cat_strategy") in _CATEGORY_LIMITS:
        tree["max_cat_to_onehot"] = _CATEGORY_LIMITS[tree["cat_strategy"]]
    objective = learner.get("objective", _LEARNER_DEFAULTS.objective)
    if objective == "count:poisson":
        step = given.get("max_delta_step", PARAMS["max_delta_step"].parse(POISSON_MAX_DELTA_STEP))
        tree["max_delta_step"] = learner["max_delta_step"] = step
    if "base_score" in learner:
        learner["base_score"] = _base_score(learner["base_score"])
    resolved = Resolved(
        _TREE_DEFAULTS._replace(**tree),
        _LEARNER_DEFAULTS._replace(**learner),
        _DART_DEFAULTS._replace(**{name: value for name, value in given.items() if name in _DART_FIELDS}),
        _LINEAR_DEFAULTS._replace(**{name: given[name] for name in LinearParams._fields if given.get(name, "") != ""}),
        MappingProxyType(given),
        unknown,
        unused,
    )
    _check_together(resolved.learner)
    _check_trees(resolved.tree)
    _check_updater(resolved)
    return resolved


def _base_score(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    if not numbers:
        raise XGBoostError("base_score is empty: give one number, or one for each output.")
    return numbers[0] if len(numbers) == 1 else numbers


def _check_together(learner: LearnerParams) -> None:
    """Rules that join an objective and its parameters."""
    objective = learner.objective
    if objective.startswith("multi:") and learner.num_class < 1:
        raise XGBoostError(
            f"value {learner.num_class} for Parameter num_class should be greater equal to 1: "
            f"{objective} needs the number of classes."
        )
    if objective == "reg:quantileerror" and not learner.quantile_alpha:
        raise XGBoostError(
            "reg:quantileerror needs the quantile to predict: set quantile_alpha, for example to 0.5 or [0.1, 0.9]."
        )
    if objective == "reg:expectileerror" and not learner.expectile_alpha:
        raise XGBoostError(
            "reg:expectileerror needs the expectile to predict: set expectile_alpha, for example to 0.5 or [0.1, 0.9]."
        )
    if learner.huber_slope == 0.0:
        raise XGBoostError("value 0 for Parameter huber_slope: the slope for pseudo huber cannot be 0.")


def _check_trees(tree: TreeParams) -> None:
    """Rules that join parameters of trees."""
    if tree.grow_policy == "symmetric" and tree.max_depth > MAX_SYMMETRIC_DEPTH:
        raise XGBoostError(
            f"value {tree.max_depth} for Parameter max_depth exceed bound [0, {MAX_SYMMETRIC_DEPTH}] of "
            f"grow_policy='symmetric': every level doubles the nodes. 0 stands for {MAX_SYMMETRIC_DEPTH}."
        )
    if tree.sampling_method == "goss":
        if tree.subsample < 1.0:
            raise XGBoostError(
                "sampling_method='goss' draws rows by top_rate and other_rate: leave subsample out, or use "
                "sampling_method='gradient_based'."
            )
        if tree.top_rate + tree.other_rate > 1.0 + 1e-6 or tree.other_rate == 0.0:
            raise XGBoostError(
                f"top_rate {tree.top_rate:g} and other_rate {tree.other_rate:g}: they are parts of the rows, together "
                "at most 1, and other_rate is above 0."
            )


def _steps(updater: Any, process_type: str) -> dict[str, Any]:
    """What `updater` says about growing or changing trees; XGBoost takes its word before `tree_method`'s."""
    if not isinstance(updater, str):
        raise XGBoostError(f"Unknown tree updater {updater!r}: updater is a text, names separated by commas.")
    names = tuple(name.strip() for name in updater.split(",") if name.strip())
    if process_type == "default":
        names = tuple(name for name in names if name != "sync")  # workers always have the same trees here
    methods = {name: method for method, name in TREE_GROWERS.items()}
    for name in names:
        if name in LINEAR_UPDATERS:
            raise XGBoostError(f"Unknown tree updater {name}: it belongs to booster='gblinear'.")
        if name not in methods and name not in TREE_MODIFIERS:
            known = ", ".join((*methods, *TREE_MODIFIERS))
            raise XGBoostError(f"Unknown tree updater {name}. There are {known}.{closest(name, (*methods, 'refresh'))}")
    growers = [name for name in names if name in methods]
    if process_type == "update":
        if growers or not names:
            wrong = growers[0] if growers else TREE_GROWERS["hist"]
            raise XGBoostError(
                f"Updater: `{wrong}` can not be used to modify existing trees. Set `process_type` to `default` if you "
                "want to build new trees, or `updater` to `refresh`, `prune` or `refresh,prune`."
            )
        return {"updater": names}
    if not names:
        return {}
    if names[0] not in methods or len(growers) > 1:
        raise XGBoostError(
            f"Updater: `{names[0]}` can not be used to create new trees. Set `process_type` to `update` if you want to "
            "update existing trees."
            if names[0] not in methods
            else f"updater {updater!r} grows every tree twice: name one of {', '.join(growers)}."
        )
    steps: dict[str, Any] = {"updater": names, "tree_method": methods[names[0]]}
    if names[0] == TREE_GROWERS["exact"] and "prune" not in names:
        steps["gamma"] = 0.0  # growing exact trees does not look at it, pruning them does
    return steps


def _check_updater(resolved: Resolved) -> None:
    """A linear model has updaters of its own, and one of them cannot choose features by their gradients."""
    linear, updater = resolved.linear, str(resolved.given.get("updater", ""))
    if resolved.learner.booster != "gblinear":
        return
    if linear.updater not in LINEAR_UPDATERS:
        raise XGBoostError(f"Unknown linear updater {updater}: use {' or '.join(LINEAR_UPDATERS)}.")
    if linear.updater == "shotgun" and linear.feature_selector not in ("cyclic", "shuffle"):
        raise XGBoostError(
            "Unsupported feature selector for shotgun updater. Supported options are: {cyclic, shuffle}; "
            f"{linear.feature_selector} needs updater='coord_descent'."
        )


def _report(resolved: Resolved, names: list[str], conflicts: list[str], warn: bool) -> None:
    """Say which names are not used and what to do about it: an error when strict, else a warning."""
    strict = settings.current().strict_parameters
    if not strict and not (warn and resolved.learner.validate_parameters and resolved.learner.verbosity > 0):
        return
    lines = [*conflicts]
    if names:
        quoted = ", ".join(f'"{name}"' for name in sorted(names))
        lines = [f"Parameters: {{ {quoted} }} are not used.", *_advice(resolved), *conflicts]
    message = "\n  ".join(lines)
    if strict:
        raise XGBoostError(message)
    settings.warn(message)


def _readers(name: str) -> tuple[str, ...]:
    """Who reads a parameter that is not always read."""
    return PARAMS[name].used_by or ("boosters of trees",)


def _advice(resolved: Resolved) -> list[str]:
    """A line for each name that is not used and about which something helpful can be said."""
    known = [*PARAMS, *ALIASES]
    lines = []
    for name in resolved.unknown:
        found = closest(name, known)
        if name in HINTS:
            lines.append(f'"{name}": {HINTS[name]}.')
        elif found:
            lines.append(f'"{name}":{found}')
    lines.extend(f'"{name}" is read only by {", ".join(_readers(name))}.' for name in resolved.unused)
    return lines
