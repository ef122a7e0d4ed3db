"""Pictures: the same words as XGBoost's where it draws them, and trees in which nothing overlaps."""

import inspect
import itertools
import sys

import numpy as np
import pytest
import xgboost as xgb

import arboost
from naive_modelio import gbtree_cases

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

from arboost import plotting  # noqa: E402
from arboost.modelio.dump import TreeView  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def load(name: str) -> arboost.Booster:
    return arboost.Booster(model_file=gbtree_cases()[name].raw("ubj"))


class Estimator:
    """What the pictures ask of an estimator."""

    def __init__(self, booster=None, scores=None):
        self._booster, self._scores = booster, scores

    def get_booster(self):
        return self._booster

    def evals_result(self):
        return self._scores


@pytest.mark.parametrize("name", ["plot_importance", "plot_tree", "to_graphviz"])
def test_signatures(name):
    def described(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert described(getattr(arboost, name)) == described(getattr(xgb, name))


# ---- importance ----


def words(ax) -> dict:
    return {
        "texts": [text.get_text() for text in ax.texts],
        "ticks": [
            (float(place), label.get_text()) for place, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        ],
        "labels": (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()),
        "bars": [(float(p.get_y()), float(p.get_width()), p.get_height()) for p in ax.patches],
        "ylim": tuple(map(float, ax.get_ylim())),
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"importance_type": "gain", "values_format": "{v:.2f}"},
        {"importance_type": "total_cover", "max_num_features": 2, "height": 0.6},
        {"show_values": False, "title": None, "xlabel": None, "ylabel": None, "ylim": (-2, 7)},
        {"title": "T", "xlabel": "X", "ylabel": "Y", "color": "red"},
    ],
)
@pytest.mark.parametrize("name", ["frame", "forest"])
def test_importance_says_what_xgboost_says(name, options):
    ours = plotting.plot_importance(load(name), **options)
    assert words(ours) == words(xgb.plot_importance(gbtree_cases()[name].booster, **options))
    assert words(plotting.plot_importance(Estimator(load(name)), **options)) == words(ours)


def test_importance_of_a_dict_keeps_the_order_of_equals():
    scores = {"a": 3, "b": 3.5, "c": 3, "$x_1$": 1}
    ours = plotting.plot_importance(scores, xlim=(0, 9))
    assert words(ours) == words(xgb.plot_importance(scores))
    assert ours.get_xlim() == (0, 9)


def test_importance_in_given_axes():
    _, axes = pyplot.subplots(1, 2)
    assert plotting.plot_importance({"a": 1}, ax=axes[1]) is axes[1]
    assert not axes[0].patches


@pytest.mark.parametrize("scores", [{"a": 0.002, "long name of b": 0.001}, {"a": 123456.789012, "b": 5}])
def test_values_stay_inside_the_axes(scores):
    ax = plotting.plot_importance(scores)
    ax.figure.draw_without_rendering()
    right = ax.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right for text in ax.texts)


@pytest.mark.parametrize("model", [{}, 3, "single_leaf"])
def test_bad_importance(model):
    ours = load(model) if isinstance(model, str) else model
    problem = "must be Booster, XGBModel or dict" if model == 3 else r"get_score\(\) results in empty"
    with pytest.raises(ValueError, match=problem):
        plotting.plot_importance(ours)


@pytest.mark.parametrize("limits", [{"xlim": 3}, {"xlim": (1, 2, 3)}, {"ylim": [1, 2]}])
def test_bad_limits(limits):
    with pytest.raises(ValueError, match="must be a tuple of 2 elements"):
        plotting.plot_importance({"a": 1}, **limits)


def test_arguments_by_position_warn():
    with pytest.warns(FutureWarning, match="Pass `ax` as keyword args"):
        plotting.plot_importance({"a": 1}, None)


# ---- graphs ----


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tree_idx": 1, "with_stats": True},
        {"tree_idx": -1, "rankdir": "LR"},
        {"yes_color": "green", "no_color": "#123456", "rankdir": "BT", "bgcolor": "white", "fontsize": "3"},
        {"condition_node_params": {"shape": "box", "fillcolor": "#78bceb"}, "leaf_node_params": {"shape": "box"}},
        {"no_color": "blue"},
    ],
)
@pytest.mark.parametrize("name", ["frame", "forest", "early_stopped"])
def test_graphviz_source_is_xgboosts(name, options):
    pytest.importorskip("graphviz")
    theirs = xgb.to_graphviz(gbtree_cases()[name].booster, **options).source
    assert arboost.to_graphviz(load(name), **options).source == theirs
    assert arboost.to_graphviz(Estimator(load(name)), **options).source == theirs


def test_graph_of_an_old_argument_or_a_tree_that_is_not_there():
    pytest.importorskip("graphviz")
    booster = load("regression")
    with pytest.warns(FutureWarning, match="`num_trees` parameter is deprecated"):
        old = arboost.to_graphviz(booster, num_trees=2)
    assert old.source == arboost.to_graphviz(booster, tree_idx=2).source
    for function in (arboost.to_graphviz, arboost.plot_tree):
        with pytest.raises(IndexError, match="list index out of range"):
            function(booster, tree_idx=99)
        with pytest.raises(ValueError, match="a Booster or an estimator"):
            function(3)


# ---- trees ----


def boxes_of(ax) -> list[tuple[float, float, float, float]]:
    shapes = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    return [(p.get_x(), p.get_y(), p.get_x() + p.get_width(), p.get_y() + p.get_height()) for p in shapes]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("rankdir", [None, "TB", "LR", "BT", "RL"])
@pytest.mark.parametrize("name", ["frame", "deep", "single_leaf", "early_stopped", "huge_values", "pruned"])
def test_no_two_nodes_overlap(name, rankdir):
    booster = load(name)
    ax = arboost.plot_tree(booster, rankdir=rankdir, with_stats=True)
    boxes = boxes_of(ax)
    assert len(boxes) == booster.get_dump()[0].count("\n")
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    assert all(x0 < a[0] and a[2] < x1 and y0 < a[1] and a[3] < y1 for a in boxes)


@pytest.mark.parametrize(("rankdir", "axis", "sign"), [("TB", 1, -1), ("BT", 1, 1), ("LR", 0, 1), ("RL", 0, -1)])
def test_the_direction_of_growth(rankdir, axis, sign):
    boxes = np.array(boxes_of(arboost.plot_tree(load("regression"), rankdir=rankdir)))
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    assert (sign * (centres[1:, axis] - centres[0, axis]) > 0).all()  # the root is drawn first


def test_a_new_figure_has_the_size_of_the_tree_and_given_axes_keep_theirs():
    small, large = arboost.plot_tree(load("single_leaf")), arboost.plot_tree(load("deep"))
    assert large.figure.get_size_inches()[0] > 10 * small.figure.get_size_inches()[0]
    figure, ax = pyplot.subplots(figsize=(5, 3))
    assert arboost.plot_tree(load("deep"), ax=ax) is ax
    assert figure.get_size_inches().tolist() == [5, 3]
    figure.canvas.draw()


def questions(booster, types=None, with_stats=False):
    model = booster._learner
    view = TreeView(model.model.trees[0], booster.feature_names, types)
    return [box.lines for box in plotting._boxes(view, model.categories, with_stats).values()]


def test_the_question_of_every_kind_of_split():
    lines = questions(load("frame"), with_stats=True)
    assert lines[0] == ["animal in {bird, cat}", "gain 286.2", "cover 250"]
    assert lines[1][0] == "x <\N{NO-BREAK SPACE}\N{MINUS SIGN}0.5836"
    assert questions(load("categorical_sets"))[0][0].startswith("f0 in {")
    booster = load("early_stopped")
    booster.feature_names = None
    assert questions(booster, ["int"] * 4)[0] == ["f0 <\N{NO-BREAK SPACE}1"]
    assert questions(booster, ["i"] * 4)[0] == ["f0"]


def test_long_questions_are_broken_and_cut():
    booster = load("frame")
    tree = booster._learner.model.trees[0]
    tree.categories, tree.categories_sizes = np.arange(60, dtype=np.int32), np.full(3, 20)
    tree.categories_segments = np.arange(3) * 20
    booster.feature_names = ["a $strange$ and rather long name of a feature"] * 4
    for lines in questions(booster):
        assert len(lines) <= 4
        assert max(map(len, lines)) <= 28


@pytest.mark.parametrize("names", [["$a$", "b_$", "\\c", "d\te"], ["ü", "é", "ß", "x"]])
def test_any_name_can_be_drawn(names):
    booster = load("regression")
    booster.feature_names = names
    arboost.plot_tree(booster).figure.canvas.draw()
    arboost.plot_importance(booster).figure.canvas.draw()


def test_looks():
    looks = {"fillcolor": "#010203", "color": "red", "fontcolor": "white", "shape": "box"}
    ax = arboost.plot_tree(load("regression"), condition_node_params=looks, yes_color="lime", no_color="cyan", size="9")
    colors = [p.get_edgecolor() for p in ax.patches]
    assert {matplotlib.colors.to_rgba(c) for c in ("red", "lime", "cyan")} <= set(colors)
    with pytest.raises(ValueError, match="rankdir must be one of"):
        arboost.plot_tree(load("regression"), rankdir="XY")


# ---- learning curves ----

SCORES = {
    "train": {"rmse": [3.0, 2.0, 1.5], "mae": [2.0, 1.0, 0.5]},
    "valid": {"rmse": [3.5, 2.5, 2.75], "mae": [2, 3, 4]},
}


def curves(ax) -> dict:
    return {line.get_label(): line.get_ydata().tolist() for line in ax.lines if not line.get_label().startswith("_")}


def test_a_panel_for_every_metric():
    axes = arboost.plot_metric(SCORES)
    assert [ax.get_ylabel() for ax in axes] == ["rmse", "mae"]
    assert curves(axes[0]) == {"train": [3.0, 2.0, 1.5], "valid": [3.5, 2.5, 2.75]}
    assert axes[0].get_title() == "Metric during training"
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["train", "valid"]


def test_chosen_metrics_and_data():
    ax = arboost.plot_metric(SCORES, "mae", ["valid"], title="the @metric@", xlim=(0, 9), ylim=(0, 5), grid=False)
    assert curves(ax) == {"valid": [2.0, 3.0, 4.0]}
    assert (ax.get_title(), ax.get_xlim(), ax.get_ylim()) == ("the mae", (0, 9), (0, 5))
    assert len(arboost.plot_metric(SCORES, ["mae", "rmse"], figsize=(3, 2), dpi=50)) == 2


def test_the_best_round_is_marked():
    ax = arboost.plot_metric(SCORES, "rmse", best_iteration=1)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [(d.get_xdata()[0], d.get_ydata()[0]) for d in dots] == [(1, 2.0), (1, 2.5)]
    assert "best: 1" in [text.get_text() for text in ax.get_legend().get_texts()]
    estimator = Estimator(scores=SCORES)
    assert not any(line.get_marker() == "o" for line in arboost.plot_metric(estimator, "rmse").lines)
    estimator.best_iteration = 2
    assert sum(line.get_marker() == "o" for line in arboost.plot_metric(estimator, "rmse").lines) == 2


def test_curves_of_training_and_cross_validation():
    data = arboost.DMatrix(np.arange(40.0).reshape(20, 2), np.arange(20.0))
    scores: dict = {}
    arboost.train({"max_depth": 1}, data, 4, evals=[(data, "train")], evals_result=scores, verbose_eval=False)
    assert curves(arboost.plot_metric(scores)) == {"train": scores["train"]["rmse"]}
    for as_pandas in (False, True):
        result = arboost.cv({"max_depth": 1}, data, 4, nfold=2, as_pandas=as_pandas)
        ax = arboost.plot_metric(result)
        assert curves(ax)["test"] == list(result["test-rmse-mean"])
        assert ax.get_ylabel() == "rmse"
        assert len(ax.collections) == 2  # bands


def test_given_axes_must_be_as_many_as_metrics():
    _, axes = pyplot.subplots(2, 1)
    assert (arboost.plot_metric(SCORES, ax=axes) == axes).all()
    assert arboost.plot_metric(SCORES, "mae", ax=axes[0]) is axes[0]
    with pytest.raises(ValueError, match=r"2 metrics .* choose by metric="):
        arboost.plot_metric(SCORES, ax=axes[0])


def test_bad_scores():
    with pytest.raises(ValueError, match="eval results cannot be empty"):
        arboost.plot_metric({})
    with pytest.raises(TypeError, match="does not keep its scores"):
        arboost.plot_metric(load("regression"))
    with pytest.raises(TypeError, match="a dict of scores"):
        arboost.plot_metric(3)
    with pytest.raises(KeyError, match="No given metric in eval results: auc; there are rmse, mae"):
        arboost.plot_metric(SCORES, "auc")
    with pytest.raises(ValueError, match="no scores of the data sets"):
        arboost.plot_metric(SCORES, dataset_names=["test"])


@pytest.mark.parametrize(
    ("package", "function"),
    [("matplotlib", "plot_importance"), ("matplotlib", "plot_tree"), ("graphviz", "to_graphviz")],
)
def test_what_is_not_installed_is_named(monkeypatch, package, function):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"You must install {package}"):
        getattr(arboost, function)(load("regression"))


def test_leaves_with_a_weight_for_every_target():
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    model = arboost.train({"multi_strategy": "multi_output_tree", "max_depth": 1}, arboost.DMatrix(X, X), 1)
    plotting.plot_tree(model)
    (tree,) = model._learner.model.trees
    boxes = plotting._boxes(TreeView(tree, None, None), None, with_stats=False)
    for leaf in (1, 2):
        assert boxes[leaf].lines == [plotting._short(weight) for weight in tree.vectors[leaf].tolist()]
        assert abs(boxes[leaf].weight) == np.abs(tree.vectors[leaf]).max()
