"""Custom objectives of every shape: a Python copy of a built-in loss grows the built-in loss's trees."""

import itertools
import json

import numpy as np
import pytest

import arboost
import naive_rank
from arboost.losses import ScalarLoss

N, SIZES = 240, [30, 50, 40, 60, 60]
RNG = np.random.default_rng(3)
X = RNG.integers(0, 12, (N, 4)).astype(np.float32)
SCORE = (X[:, 0] - 6) / 4 + (X[:, 1] > 5) * (X[:, 2] - 6) / 5 + RNG.normal(size=N) * 0.3


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def squared(margin, data):
    return margin - data.get_label().reshape(margin.shape), np.ones_like(margin)


def logistic(margin, data):
    p = _sigmoid(margin)
    return p - data.get_label().reshape(margin.shape), np.maximum(p * (1 - p), 1e-16)


def poisson(margin, data):
    mean = np.exp(margin)
    return mean - data.get_label(), mean * np.exp(0.7)  # XGBoost tempers the hessian by max_delta_step


def softmax(margin, data):
    p = np.exp(margin - margin.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    g = p - np.eye(margin.shape[1])[data.get_label().astype(int)]
    return g, np.maximum(2 * p * (1 - p), 1e-16)


def softmax_flat(margin, data):
    g, h = softmax(margin, data)
    return g.reshape(-1), h.reshape(-1)


def expectile(margin, data):
    residual = margin - data.get_label()
    side = np.where(residual >= 0, 0.7, 0.3)
    return side * residual, side


def pairwise(margin, data):
    g, h = np.zeros((2, len(margin)))
    ptr = data.get_uint_info("group_ptr")
    label = data.get_label()
    for a, b in itertools.pairwise(ptr):
        pairs = naive_rank.top_pairs("rank:pairwise", label[a:b], margin[a:b].astype(np.float64), by_distance=False)
        g[a:b], h[a:b], _ = naive_rank.gradients(pairs, margin[a:b].astype(np.float64))
    return g, h


def cox(margin, data):
    """Breslow's partial likelihood; a negative label is a censored time."""
    label, e = data.get_label(), np.exp(margin.astype(np.float64))
    time = np.abs(label)
    at_risk = np.array([e[time >= t].sum() for t in time])  # of each row's own time
    g, h = np.zeros((2, len(label)))
    for i, t in enumerate(time):
        events = (label > 0) & (time <= t)
        r, s = (1 / at_risk[events]).sum(), (1 / at_risk[events] ** 2).sum()
        g[i], h[i] = e[i] * r - (label[i] > 0), e[i] * r - e[i] ** 2 * s
    return g, np.maximum(h, 0)


def aft_normal(margin, data):
    """Times known exactly, noise normal with scale 1."""
    z = np.log(data.get_float_info("label_lower_bound")) - margin
    return -z, np.ones_like(z)


def _matrix(**info):
    return arboost.DMatrix(X, **info)


CLASSES = np.digitize(SCORE, [-0.6, 0.6])
TIMES = np.exp(SCORE).astype(np.float32)
CASES = {
    "squared": (squared, {"objective": "reg:squarederror"}, {"label": SCORE}),
    "targets": (squared, {"objective": "reg:squarederror"}, {"label": np.stack([SCORE, X[:, 3]], axis=1)}),
    "logistic": (logistic, {"objective": "binary:logistic"}, {"label": SCORE > 0}),
    "labels": (logistic, {"objective": "binary:logistic"}, {"label": np.stack([SCORE > 0, X[:, 3] > 5], axis=1)}),
    "poisson": (poisson, {"objective": "count:poisson"}, {"label": np.rint(TIMES)}),
    "classes": (softmax, {"objective": "multi:softprob", "num_class": 3}, {"label": CLASSES}),
    "classes, flat": (softmax_flat, {"objective": "multi:softmax", "num_class": 3}, {"label": CLASSES}),
    "expectiles": (
        expectile, {"objective": "reg:expectileerror", "expectile_alpha": [0.3]}, {"label": SCORE}
    ),
    "groups": (
        pairwise,
        {
            "objective": "rank:pairwise",
            "lambdarank_normalization": False,
            "lambdarank_score_normalization": False,
            "lambdarank_num_pair_per_sample": 32,
        },
        {"label": CLASSES, "group": SIZES},
    ),
    "cox": (cox, {"objective": "survival:cox"}, {"label": np.where(X[:, 3] > 2, TIMES, -TIMES)}),
    "aft": (aft_normal, {"objective": "survival:aft"}, {"label_lower_bound": TIMES, "label_upper_bound": TIMES}),
}  # fmt: skip
COMMON = {"max_depth": 3, "base_score": 0.5, "eta": 0.4}


def _nodes(model):
    return [json.loads(tree) for tree in model.get_dump(with_stats=True, dump_format="json")]


def _same(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        if key == "children":
            for x, y in zip(value, b[key], strict=True):
                _same(x, y)
        elif key in ("gain", "cover", "leaf"):
            assert value == pytest.approx(b[key], rel=2e-3, abs=2e-4)
        else:
            assert value == b[key], (a, b)


def _assert_same_trees(ours, expected):
    assert len(ours.get_dump()) == len(expected.get_dump())
    for a, b in zip(_nodes(ours), _nodes(expected), strict=True):
        _same(a, b)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_a_copy_of_a_built_in_grows_its_trees(name, booster):
    obj, params, info = CASES[name]
    params = COMMON | params | {"booster": booster}
    if booster == "dart":
        params |= {"rate_drop": 0.5, "one_drop": True}
    data = _matrix(**info)
    n_rounds = 2 if name == "groups" else 3
    expected = arboost.train(params, data, n_rounds)
    ours = arboost.train(params, data, n_rounds, obj=obj)
    _assert_same_trees(ours, expected)
    np.testing.assert_allclose(ours.predict(data), expected.predict(data), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["targets", "classes", "groups", "cox"])
def test_boost_with_gradients(name):
    obj, params, info = CASES[name]
    data = _matrix(**info)
    by_hand, by_train = arboost.Booster(COMMON | params, [data]), arboost.train(COMMON | params, data, 2, obj=obj)
    start = np.full((N, by_hand._learner.n_outputs), by_hand._learner.base_margin())
    for i in range(2):
        margin = by_hand.predict(data, output_margin=True) if i else start if start.shape[1] > 1 else start[:, 0]
        grad, hess = obj(margin.astype(np.float32), data)
        by_hand.boost(data, i, grad=grad, hess=hess)
    _assert_same_trees(by_hand, by_train)


def test_the_objective_finds_the_leaves():
    """Leaves come from `objective` where it has its own way, whoever made the gradients, as in XGBoost."""
    xgboost = pytest.importorskip("xgboost")
    alpha = np.array([0.25, 0.75])

    def pinball(margin, data):
        above = margin >= data.get_label()[:, None]
        return np.where(above, 1 - alpha, -alpha).astype(np.float32), np.ones_like(margin)

    params = COMMON | {"objective": "reg:quantileerror", "quantile_alpha": [0.25, 0.75]}
    models = [
        package.train(params, package.DMatrix(X, SCORE), 3, obj=pinball) for package in (arboost, xgboost)
    ]  # fmt: skip
    _assert_same_trees(*models)
    newton = [package.train(COMMON, package.DMatrix(X, SCORE), 3, obj=_median) for package in (arboost, xgboost)]
    _assert_same_trees(*newton)


def _median(margin, data):
    return np.sign(margin - data.get_label()).astype(np.float32), np.ones_like(margin)


def test_compiled_formulas_for_several_targets():
    info = CASES["targets"][2]
    loss = ScalarLoss(lambda margin, label: (margin - label, 1.0))
    data = _matrix(**info, weight=np.linspace(0.5, 2, N))
    expected = arboost.train(COMMON, data, 3)
    assert arboost.train(COMMON, data, 3, obj=loss).get_dump(with_stats=True) == expected.get_dump(with_stats=True)


# ---- estimators ----


def _as_estimators_want(obj):
    """(y_true, y_pred) instead of (margin, data)."""

    class Labels:
        def __init__(self, label, group_ptr=None):
            self.get_label, self.get_uint_info = lambda: label, lambda name: group_ptr

    def plain(y_true, y_pred):
        return obj(y_pred, Labels(y_true))

    def grouped(y_true, y_pred, group_ptr):
        return obj(y_pred, Labels(y_true, group_ptr))

    return grouped if obj is pairwise else plain


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        ("targets", arboost.XGBRegressor),
        ("logistic", arboost.XGBClassifier),
        ("labels", arboost.XGBClassifier),
        ("classes", arboost.XGBClassifier),
        ("groups", arboost.XGBRanker),
    ],
)
def test_estimators(name, estimator):
    obj, params, info = CASES[name]
    info = dict(info)
    label, more = np.asarray(info.pop("label"), np.float32), info
    own = {key: value for key, value in params.items() if key not in ("objective", "num_class")}
    own |= {"n_estimators": 2, "max_depth": 3, "base_score": 0.5, "learning_rate": 0.4}
    expected = estimator(**own, **({"objective": params["objective"]} if name != "classes" else {}))
    ours = estimator(**own, objective=_as_estimators_want(obj))
    expected.fit(X, label, **more)
    ours.fit(X, label, **more)
    _assert_same_trees(ours.get_booster(), expected.get_booster())
    if name == "groups":
        assert (
            json.loads(ours.get_booster().save_config())["learner"]["learner_train_param"]["objective"] == "rank:ndcg"
        )


def test_ranker_with_a_custom_objective_and_weights():
    def objective(y_true, y_pred, group_ptr, sample_weight):
        assert len(sample_weight) == len(group_ptr) - 1 == len(SIZES)
        return y_pred - y_true, np.ones_like(y_pred)

    model = arboost.XGBRanker(objective=objective, n_estimators=2)
    model.fit(X, CLASSES, group=SIZES, sample_weight=np.ones(len(SIZES)), eval_set=[(X, CLASSES)], eval_group=[SIZES])
    assert list(model.evals_result()["validation_0"]) == ["ndcg@32"] or "ndcg" in str(model.evals_result())


# ---- metrics ----


def _log_loss(p, data):
    return "own", -np.mean(np.log(p[np.arange(len(p)), data.get_label().astype(int)]))


def _rmse(p, data):
    return "own", np.sqrt(np.mean((p - data.get_label().reshape(p.shape)) ** 2))


def _ndcg(p, data):
    ptr, label = data.get_uint_info("group_ptr"), data.get_label()
    groups = itertools.pairwise(ptr)
    return "own", np.mean([naive_rank.list_metric("ndcg", label[a:b], p[a:b], top=32) for a, b in groups])


@pytest.mark.parametrize(
    ("name", "metric", "builtin"),
    [("classes", _log_loss, "mlogloss"), ("targets", _rmse, "rmse"), ("groups", _ndcg, "ndcg")],
)
def test_a_copy_of_a_metric_says_the_same(name, metric, builtin):
    _, params, info = CASES[name]
    data, results = _matrix(**info), {}
    params = COMMON | params | {"eval_metric": builtin}
    arboost.train(
        params, data, 3, evals=[(data, "train")], evals_result=results, custom_metric=metric, verbose_eval=False
    )
    assert results["train"]["own"] == pytest.approx(results["train"][builtin], rel=1e-5)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (lambda m, d: None, TypeError, "two arrays"),
        (lambda m, d: (m, m, m), TypeError, "3 values"),
        (lambda m, d: (m[:-1], m[:-1]), ValueError, "`grad` has shape"),
        (lambda m, d: (m, m[:-1]), ValueError, "`hess` has shape"),
        (lambda m, d: (m[:, 0], m[:, 0]), ValueError, "240 rows x 3 outputs"),
        (lambda m, d: (m.T, m.T), ValueError, "240 rows x 3 outputs"),
        (lambda m, d: (m * np.nan, m), ValueError, "NaN or infinite"),
        (lambda m, d: (m, m / 0), ValueError, "NaN or infinite"),
    ],
)
def test_refused_and_nothing_lost(found, error, message):
    _, params, info = CASES["classes"]
    data = _matrix(**info)
    model = arboost.train(COMMON | params, data, 2)
    before = model.get_dump(with_stats=True)
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        model.update(data, 2, fobj=found)
    assert model.get_dump(with_stats=True) == before
    model.update(data, 2, fobj=softmax)
    assert model.num_boosted_rounds() == 3


# ---- num_class without one of the multi-class objectives ----


@pytest.mark.parametrize(
    "params",
    [{}, {"booster": "dart"}, {"objective": "reg:squarederror"}, {"num_parallel_tree": 2}, {"tree_method": "exact"},
     {"multi_strategy": "multi_output_tree"}, {"booster": "gblinear"}],
    ids=str,
)  # fmt: skip
def test_a_custom_objective_sees_a_column_for_each_class(params):
    """As with multi:softprob, whatever `objective` says; the number of classes is kept in the file."""
    shapes = []

    def objective(margin, data):
        shapes.append(margin.shape)
        return softmax(margin, data)

    label = np.digitize(SCORE, [-1, 0, 1])
    params = {"nthread": 1, "num_class": 4, "base_score": 0.5, "disable_default_eval_metric": True, **params}
    data = arboost.DMatrix(X, label)
    model = arboost.train(params, data, 2, obj=objective)
    assert shapes == [(N, 4)] * 2
    twin = arboost.train({**params, "objective": "multi:softprob"}, data, 2)
    margin = model.predict(data, output_margin=True)
    assert margin.shape == (N, 4)
    np.testing.assert_allclose(margin, twin.predict(data, output_margin=True), rtol=1e-4, atol=1e-5)
    if params.get("booster") != "gblinear":
        np.testing.assert_array_equal(model.predict(data, pred_leaf=True), twin.predict(data, pred_leaf=True))
    reloaded = arboost.Booster(model_file=model.save_raw())
    np.testing.assert_array_equal(reloaded.predict(data, output_margin=True), margin)
    assert json.loads(reloaded.save_config())["learner"]["learner_model_param"]["num_class"] == "4"
    arboost.train(params, data, 1, obj=objective, xgb_model=reloaded)
    assert shapes[-1] == (N, 4)


def test_without_an_objective_num_class_means_softmax():
    label = np.digitize(SCORE, [-1, 0, 1])
    data = arboost.DMatrix(X, label)
    model = arboost.train({"num_class": 4}, data, 2)
    np.testing.assert_array_equal(
        model.predict(data), arboost.train({"num_class": 4, "objective": "multi:softmax"}, data, 2).predict(data)
    )
    assert arboost.train({"num_class": 1}, arboost.DMatrix(X, SCORE), 1).predict(data).shape == (N,)


@pytest.mark.parametrize(
    "objective",
    ["reg:squarederror", "reg:absoluteerror", "binary:logistic", "count:poisson", "rank:pairwise", "reg:tweedie"],
)
def test_num_class_is_refused_by_losses_without_classes(objective):
    data = arboost.DMatrix(X, (SCORE > 0).astype(int), group=SIZES)
    with pytest.raises(arboost.core.XGBoostError, match=f"num_class is 3, but objective '{objective}' has 1 output"):
        arboost.train({"objective": objective, "num_class": 3}, data, 1)
    with pytest.raises(arboost.core.XGBoostError, match="num_class is 3"):
        arboost.train({"num_class": 3}, data, 1, obj=ScalarLoss(lambda margin, label: (margin - label, 1.0)))
