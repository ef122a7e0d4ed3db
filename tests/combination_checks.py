"""What must hold of any draw of `combinations.py`: `check` is for one training, `check_shared` for several at once.

A failure is an AssertionError; anything else that leaves these functions is a fault too.
"""

import contextlib
import json
import math
import pickle
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

import arboost
from arboost.core import XGBoostError
from combinations import CHOICES, OURS_ALONE, Draw, draw, redraw_growth

# Names of the sizes below which work is not shared: they may change how work is cut, never what comes out.
SHARE_SIZES = re.compile(r"(\w*_)?GRAIN(_\w+)?|TEAM_\w+|_SMALL_WORK|SHARED_ENTRIES|PIECE_ENTRIES")
RANDOM = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode", "rate_drop", "updater")
STABLE = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror")  # whole steps do not make their losses rise
# Metrics that fall with the loss, where the objective's own in XGBoost takes margins for probabilities, or counts.
LOSS_METRICS = {"binary:logitraw": {"eval_metric": "auc"}, "multi:softmax": {"eval_metric": "mlogloss"}}
FIT_LESS = (*CHOICES, "linear_leaves", "cat_strategy", "boosting_type")  # or in another way
# What messages call the things that parameters of other names ask for.
WORDS = {
    "max_bin": "bins", "is_quantile": "QuantileDMatrix", "multi_strategy": "multi-target", "booster": "gblinear",
    "updater": "feature_selector",
}  # fmt: skip


@contextlib.contextmanager
def tiny_shares() -> Iterator[None]:
    """Threads share work from a handful of items on, so that small data shows what sharing does."""
    changed = []
    for name, module in list(sys.modules.items()):
        if name.startswith("arboost.") and not name.startswith("arboost.kernels"):
            for constant in [key for key in vars(module) if SHARE_SIZES.fullmatch(key)]:
                changed.append((module, constant, getattr(module, constant)))
                setattr(module, constant, 7)
    try:
        yield
    finally:
        for module, constant, value in changed:
            setattr(module, constant, value)


def train(library: Any, d: Draw, params: dict[str, Any], data: Any, evals: list) -> tuple[Any, dict[str, list[float]]]:
    """The draw's training: the model, and the last values of every metric by "set-metric"."""
    found: dict[str, Any] = {}
    how = {"evals": evals, "verbose_eval": False, "obj": d.custom_objective}
    booster = library.train(params, data, d.n_rounds, evals_result=found, **how)
    if d.n_more_rounds:
        kept = library.Booster(params, model_file=booster.save_raw())
        found, more = {}, params
        if d.more_params:
            kept_names = ("verbosity", "nthread", "seed", "eval_metric")
            more = d.more_params | {name: params[name] for name in kept_names if name in params}
            if library is not arboost:
                more = {name: value for name, value in more.items() if name not in OURS_ALONE}
        booster = library.train(more, data, d.n_more_rounds, xgb_model=kept, evals_result=found, **how)
    if d.process_type == "update":
        update = {**params, "process_type": "update", "updater": "refresh"}
        kept, found = library.Booster(params, model_file=booster.save_raw()), {}
        booster = library.train(update, data, 1, xgb_model=kept, evals_result=found, **how)
    return booster, {f"{name}-{m}": v[-1] for name, metrics in found.items() for m, v in metrics.items()}


def check(seed: int, say: Callable[[str], None] = lambda phase: None, largest: int = 20_000) -> str:
    """Make the draw and check it; what became of it: "trained", "refused" or, without a peer to compare, "alone"."""
    d = draw(seed, largest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _check(d, say)
    except Exception as error:
        error.add_note(str(d))
        raise


def _check(d: Draw, say: Callable[[str], None]) -> str:
    params = {"verbosity": 0, "nthread": 1, **d.params}
    say("training")
    try:
        data = d.make_matrix(arboost)
        evals = [(data, "train")]
        if len(d.held_out):
            evals.append((d.make_reference(arboost, data), "other"))
        booster, metrics = train(arboost, d, params, data, evals)
    except (XGBoostError, ValueError) as error:
        _check_refusal(d, error)
        say("XGBoost")
        diverges = any(
            word in str(error) for word in ("finite", "infinite")
        )  # where steps grow without end, XGBoost goes on with NaN
        assert diverges or _peer_refuses(d), f"refused, but XGBoost trains it: {error}"
        return "refused"
    raw = bytes(booster.save_raw())
    say("predictions")
    _check_predictions(d, booster, raw, metrics, evals)
    say("structure")
    _check_structure(d, booster)
    say("threads")
    _check_same_bytes(d, params, raw)
    say("XGBoost")
    return _check_loss(d)


# ---- what is refused ----


def _check_refusal(d: Draw, error: Exception) -> None:
    """The message names a parameter, its value, or what is special about the data."""
    message = str(error).lower()
    assert message, "an error without a message"
    words = (
        {name for name in d.params if name not in ("seed", "objective", "max_depth")}
        | d.notes
        | {d.params["objective"]}
    )
    words |= {str(value) for value in d.params.values() if isinstance(value, str)}
    words |= {WORDS[name] for name in d.params if name in WORDS} | set(d.meta) | d.more_params.keys()
    words |= {WORDS["is_quantile"]} if d.is_quantile else set()
    named = [word for word in words if len(word) > 2 and word.lower() in message]
    assert named, f"refused without naming anything of the draw: {error}"


def _peer_refuses(d: Draw) -> bool:
    """Whether XGBoost refuses the draw too, or cannot be asked."""
    try:
        import xgboost
    except ImportError:
        return True
    if OURS_ALONE & (d.params.keys() | d.more_params.keys()):
        return True
    try:
        data = d.make_matrix(xgboost)
        train(xgboost, d, _peer_params(d), data, [(data, "train")])
    except (xgboost.core.XGBoostError, ValueError, TypeError):
        return True
    return False


# ---- what is kept in training is what the model predicts ----


def _check_predictions(d: Draw, booster: Any, raw: bytes, metrics: dict[str, float], evals: list) -> None:
    reloaded = arboost.Booster({"nthread": 2, "verbosity": 0}, model_file=bytearray(raw))
    assert bytes(reloaded.save_raw()) == raw, "saved, loaded and saved again: other bytes"
    params = d.params | d.more_params
    reloaded.set_param({name: params[name] for name in params if name != "base_score"})
    for (kept, name), rows in zip(evals, (None, d.held_out)):
        if name == "train" and params.get("cat_strategy") == "ordered_ts":
            continue  # a row in training has statistics that have not seen its own label
        fresh = d.make_matrix(arboost, rows, plain=True)
        margin = booster._learner.margins(booster._learner.encoded(kept))
        predicted = reloaded.predict(fresh, output_margin=True).reshape(margin.shape)
        scale = max(1.0, float(np.abs(margin[np.isfinite(margin)]).max(initial=0.0)))
        np.testing.assert_allclose(margin, predicted, rtol=1e-4, atol=2e-5 * scale, err_msg=f"margins of {name}")
        for metric, value in reloaded._learner.evaluate(reloaded._learner.encoded(fresh)):
            known = metrics[f"{name}-{metric}"]
            same = math.isclose(known, value, rel_tol=1e-4, abs_tol=1e-5) or (math.isnan(known) and math.isnan(value))
            # ranks and classes may turn at the last bit of a margin
            assert same or _turns(metric, known, value, margin), f"{metric} of {name}: {known} kept, {value} reloaded"
    _check_contributions(d, reloaded)
    _check_uses(d, reloaded)
    _check_monotone(d, reloaded)


def _check_contributions(d: Draw, booster: Any) -> None:
    """The contributions of a few rows add up to their margins."""
    few = d.make_matrix(arboost, np.arange(min(d.n_rows, 20)), plain=True) if "group" not in d.meta else None
    if few is not None:
        margin = booster.predict(few, output_margin=True)
        exact = booster.predict(few, pred_contribs=True)
        sums = [exact.sum(axis=-1), booster.predict(few, pred_contribs=True, approx_contribs=True).sum(axis=-1)]
        if d.X.shape[1] < 20:
            pairs = booster.predict(few, pred_interactions=True).sum(axis=-1)
            sums.append(pairs.sum(axis=-1))
        scale = max(1.0, float(np.abs(margin).max()))
        for parts in sums:
            np.testing.assert_allclose(parts.reshape(margin.shape), margin, rtol=1e-3, atol=1e-4 * scale)


def _check_forms(d: Draw, booster: Any, fresh: Any, predicted: np.ndarray) -> None:
    """Other forms of the model say the same, or are refused by name: JSON, rounds put together again, dumps, source."""
    from_json = arboost.Booster({"verbosity": 0}, model_file=booster.save_raw("json"))
    assert from_json.save_raw() == booster.save_raw(), "through JSON: other bytes"
    if d.params["booster"] == "gblinear":
        return
    n_rounds = booster.num_boosted_rounds()
    if n_rounds > 1:
        whole = arboost.Booster.concat([booster[:1], booster[1:]])
        np.testing.assert_array_equal(whole.predict(fresh), predicted, err_msg="cut in two and put together")
    dumps = {form: booster.get_dump(with_stats=True, dump_format=form) for form in ("text", "json", "dot")}
    assert {len(dump) for dump in dumps.values()} == {len(booster._learner.model.trees)}
    n_nodes = sum(text.count("\n") for text in dumps["text"])
    assert len(booster.trees_to_dataframe()) == n_nodes
    try:
        source = booster.to_python()
    except XGBoostError as error:
        assert any(word in str(error) for word in ("linear_leaves", "ordered_ts", d.params["objective"])), error
        return
    made: dict[str, Any] = {}
    exec(source, made)
    rows = d.X[:3].toarray() if hasattr(d.X, "toarray") else d.X[:3]  # an absent entry would have to be NaN
    if not hasattr(d.X, "toarray") and "base_margin" not in d.meta:
        own = np.array([made["predict"]([float(value) for value in row]) for row in rows], np.float32)
        np.testing.assert_allclose(own.reshape(predicted[:3].shape), predicted[:3], rtol=1e-4, atol=1e-5)


def _check_uses(d: Draw, booster: Any) -> None:
    """Other ways to the same numbers: in place, from a pickle, from slices of rounds, from leaves."""
    fresh = d.make_matrix(arboost, None, plain=True)
    predicted = booster.predict(fresh)
    _check_forms(d, booster, fresh, predicted)
    twin = pickle.loads(pickle.dumps(booster))
    np.testing.assert_array_equal(twin.predict(fresh), predicted, err_msg="pickled")
    np.testing.assert_array_equal(booster.copy().predict(fresh), predicted, err_msg="copied")
    if "feature_types" not in d.meta:
        in_place = booster.inplace_predict(d.X, base_margin=d.meta.get("base_margin"))
        np.testing.assert_array_equal(in_place, predicted, err_msg="in place")
    n_rounds = booster.num_boosted_rounds()
    if d.params["booster"] != "gblinear" and n_rounds > 1:
        some = booster.predict(fresh, iteration_range=(0, n_rounds - 1), output_margin=True)
        np.testing.assert_array_equal(
            booster[: n_rounds - 1].predict(fresh, output_margin=True), some, err_msg="sliced"
        )
    if d.params["booster"] != "gblinear":
        trees = booster._learner.model.trees
        leaves = booster.predict(fresh, pred_leaf=True).reshape(d.n_rows, -1)
        assert all((tree.left[column.astype(int)] < 0).all() for tree, column in zip(trees, leaves.T, strict=True))


def _check_monotone(d: Draw, booster: Any) -> None:
    """Where a feature must push one way, raising it in a few rows does not push the other way."""
    wanted = d.params.get("monotone_constraints")
    if (
        wanted is None
        or d.more_params
        or d.process_type == "update"
        or not isinstance(d.X, np.ndarray)
        or "feature_types" in d.meta
    ):
        return
    rows = np.asarray(d.X[:8], np.float32)
    for f, sign in enumerate(int(s) for s in wanted.strip("()").split(",")):
        grid = np.unique(np.asarray(d.X[:, f], np.float32))
        grid = grid[~np.isnan(grid)][:: max(1, len(grid) // 20)]
        if not sign or not len(grid):
            continue
        table = np.repeat(rows, len(grid), axis=0)
        table[:, f] = np.tile(grid, len(rows))
        margin = booster.predict(arboost.DMatrix(table), output_margin=True).reshape(len(rows), len(grid), -1)
        steps = sign * np.diff(margin.astype(np.float64), axis=1)
        least = -1e-5 * max(1.0, float(np.abs(margin).max()))
        assert steps.min(initial=0.0) >= least, f"feature {f} pushes the wrong way by {steps.min()}"


def _turns(metric: str, known: float, value: float, margin: np.ndarray) -> bool:
    """Whether a metric that counts may differ so much where margins tie."""
    counts = metric.partition("@")[0] in ("error", "merror", "auc", "aucpr", "ndcg", "map", "pre")
    return counts and abs(known - value) < 0.05 and len(np.unique(margin)) < 0.9 * margin.size


# ---- limits on trees hold, whatever else is asked for ----


def _check_structure(d: Draw, booster: Any) -> None:
    """Depth, leaves, features and their company, gains and covers are within what parameters allow."""
    if d.process_type == "update" or d.more_params or d.params["booster"] == "gblinear":
        return
    p = d.params
    n_drawn = max(1, int(np.float32(p.get("colsample_bytree", 1.0)) * np.float32(booster._learner.n_features)))
    groups = [set(group) for group in json.loads(p.get("interaction_constraints", "[]"))]
    for tree in booster._learner.model.trees:
        splits = np.flatnonzero(tree.left >= 0)
        parent = np.where(np.arange(tree.n_nodes) == 0, -1, tree.parent)
        live = [i for i in range(tree.n_nodes) if i == 0 or tree.left[parent[i]] == i or tree.right[parent[i]] == i]
        depth, company = {0: 0}, {0: set()}
        for i in live[1:]:
            above = int(parent[i])
            depth[i], company[i] = depth[above] + 1, company[above] | {int(tree.feature[above])}
        most = p.get("max_depth", 6)
        assert not most or max(depth.values()) <= most, "deeper than max_depth"
        n_leaves = len(splits) + 1
        is_limited = p.get("max_leaves", 0) and p.get("tree_method") != "exact"
        assert not is_limited or n_leaves <= p["max_leaves"], f"{n_leaves} leaves, max_leaves is {p['max_leaves']}"
        used = set(tree.feature[splits].tolist())
        assert len(used) <= n_drawn, f"{len(used)} features in a tree, {n_drawn} drawn by colsample_bytree"
        for i in live if groups else ():  # a feature of no set goes alone
            fits = len(company[i]) <= 1 or any(company[i] <= group for group in groups)
            assert fits, f"features {company[i]} together on a path"
        if tree.has_vectors or p.get("grow_policy") == "symmetric":  # gamma and min_child_weight rule over levels
            continue
        last = [i for i in splits if tree.left[tree.left[i]] < 0 and tree.left[tree.right[i]] < 0]
        gain = tree.gain[last].min(initial=np.inf)
        assert gain >= p.get("gamma", 0.0) * (1 - 1e-6), f"a split gains {gain}, gamma is {p.get('gamma')}"
        cover = tree.cover[live[1:]].min(initial=np.inf)
        assert cover >= p.get("min_child_weight", 1.0) * (1 - 1e-5), f"a child weighs {cover}"


# ---- the same bytes ----


def _check_same_bytes(d: Draw, params: dict[str, Any], raw: bytes) -> None:
    without_device = {**params, "device": "cuda"}  # which falls back, where there is none
    again, _ = train(arboost, d, without_device, replace(d, is_paged=False).make_matrix(arboost), [])
    assert bytes(again.save_raw()) == raw, "a second training gives another model"
    if not d.n_more_rounds and d.process_type == "default":
        stepwise, data = arboost.Booster(params), d.make_matrix(arboost)
        for i in range(d.n_rounds):
            stepwise.update(data, i, d.custom_objective)
            stepwise.eval(data)
        assert bytes(stepwise.save_raw()) == raw, "training step by step gives another model"
    with tiny_shares():
        shared, _ = train(arboost, d, {**params, "nthread": 3}, d.make_matrix(arboost), [])
    assert bytes(shared.save_raw()) == raw, "three threads give another model"


# ---- not worse than XGBoost ----


def _peer_params(d: Draw) -> dict[str, Any]:
    return {"verbosity": 0, "nthread": 1, **{k: v for k, v in d.params.items() if k not in OURS_ALONE}}


def _check_loss(d: Draw) -> str:
    """Training loss, as XGBoost computes it, at most XGBoost's and noise.

    Noise is a share of what XGBoost's loss has changed by: a tenth where both must find the same trees but for ties and
    for where bins begin, a third where bins are few or anything is drawn. A loss that is not so close gets another
    chance, without what makes both differ: means over several seeds are compared, or trees on a bin for every value.
    """
    try:
        import xgboost
    except ImportError:
        return "alone"
    p = d.params
    has_no_peer = p["objective"] == "reg:expectileerror" or d.kind == "odd" or np.isnan(d.meta.get("label", 0.0)).any()
    overshoots = p.get("eta") == 1.0 and p["objective"] not in STABLE
    # leaves that are solved: ours keep constraints, and `exact` solves them too
    is_solved = p["objective"] in ("reg:absoluteerror", "reg:quantileerror")
    keeps_promise = is_solved and ("monotone_constraints" in p or p.get("tree_method") == "exact")
    fits_less = any(name in p or name in d.more_params for name in FIT_LESS)
    drops = p["booster"] == "dart" and d.process_type == "update"  # XGBoost drops trees while it refreshes them
    if has_no_peer or overshoots or keeps_promise or fits_less or drops:  # XGBoost does not hold the constraint there
        return "alone"
    is_random = any(name in p or name in d.more_params for name in RANDOM) or "rank:" in p["objective"]
    try:
        problem = _compare_losses(xgboost, d, [p["seed"]], 0.35 if is_random or p.get("max_bin", 256) < 64 else 0.1)
        if problem and is_random:
            problem = _compare_losses(xgboost, d, range(10), 0.35)
            if problem and "rank:" in p["objective"]:  # XGBoost's pairs do not depend on its seed: see more of them
                problem = _compare_losses(xgboost, replace(d, n_rounds=10 * d.n_rounds), range(10), 0.35)
        if problem:
            seeds = range(10) if is_random else [p["seed"]]
            problem = _compare_losses(xgboost, _with_all_bins(d), seeds, 0.35 if is_random else 0.1)
    except (xgboost.core.XGBoostError, ValueError, TypeError):
        return "alone"
    assert not problem, problem
    return "trained"


def _with_all_bins(d: Draw) -> Draw:
    """The same draw with a bin for every value."""
    params, more = (
        {name: value for name, value in params.items() if name not in ("sketch_eps", "max_bin")}
        | {"max_bin": d.n_rows + 1}
        for params in (d.params, d.more_params)
    )
    return replace(d, params=params, more_params=more if d.more_params else {})


def _compare_losses(xgboost: Any, d: Draw, seeds: Iterable[int], share: float) -> str:
    """What is wrong with the mean of our losses over the seeds, if anything."""
    data, own_data, values = d.make_matrix(xgboost), d.make_matrix(arboost), d.make_matrix(xgboost, plain=True)
    metric = LOSS_METRICS.get(d.params["objective"], {"eval_metric": []})
    params, own = _peer_params(d) | metric, {"verbosity": 0, "nthread": 1, **d.params}

    def loss_of(model: Any) -> float:
        """The value of the objective's metric, whichever library the model comes from; smaller is better."""
        text = xgboost.Booster(params, model_file=model.save_raw()).eval(values).split("eval-")[-1]
        name, value = text.split(":")[0].split("@")[0], float(text.split(":")[-1])
        return -value if name in ("ndcg", "map", "auc", "aucpr", "pre") else value

    start = loss_of(xgboost.train({**params, "eta": 0.0, "booster": "gbtree"}, data, 1))
    ours = np.array([loss_of(train(arboost, d, {**own, "seed": s}, own_data, [])[0]) for s in seeds])
    theirs = np.array([loss_of(train(xgboost, d, {**params, "seed": s}, data, [])[0]) for s in seeds])
    if not math.isfinite(start) or not np.isfinite(theirs).all():
        return ""
    few = 2.0 / d.n_rows * abs(start) + 1e-5 * max(1.0, abs(start))  # of a few rows each counts for much
    spread = 3 * math.hypot(ours.std(), theirs.std()) / math.sqrt(len(ours))
    noise = share * abs(start - theirs.mean()) + few + spread
    is_fine = ours.mean() <= theirs.mean() + noise
    return "" if is_fine else f"training loss {ours} above XGBoost's {theirs} and noise {noise:.3g} (start {start:.6g})"


# ---- several threads on one matrix ----


def check_shared(seed: int, n_threads: int = 4) -> str:
    """Models trained at the same time on one matrix are those trained one after the other on matrices of their own."""
    base = draw(seed, 2000)
    draws = [redraw_growth(base, seed * 31 + i) for i in range(2 * n_threads)]
    shared, start = None, threading.Barrier(n_threads)

    def fit(d: Draw, data: Any, n: int) -> bytes | str:
        try:
            params = {"verbosity": 0, "nthread": n, **d.params}
            return bytes(arboost.train(params, data, d.n_rounds).save_raw())
        except (XGBoostError, ValueError) as error:
            return str(error)

    def fit_shared(d: Draw) -> bytes | str:
        start.wait()
        return fit(d, shared, 1 + d.seed % 2)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shared = base.make_matrix(arboost)
            alone = [fit(d, d.make_matrix(arboost), 1) for d in draws]
            with ThreadPoolExecutor(n_threads) as executor:
                together = [*executor.map(fit_shared, draws[:n_threads]), *executor.map(fit_shared, draws[n_threads:])]
        for d, a, b in zip(draws, alone, together, strict=True):
            assert a == b, f"trained beside others it is another model:\n{d}"
    except Exception as error:
        error.add_note(str(base))
        raise
    return "shared"
