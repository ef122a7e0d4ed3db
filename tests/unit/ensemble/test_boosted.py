"""The ready estimators: what they choose, keep and promise."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

import arboost as xgb
from arboost.ensemble import BoostedClassifier, BoostedRegressor
from arboost.ensemble.audition import Clock, Contender, Part, Race, is_better
from arboost.ensemble.heldout import fit_temperature, interval_width, residual_sample
from arboost.ensemble.recipes import Facts, effort_for, finer, recipes, refit_effort, rounds_of_more_rows
from arboost.ensemble.trend import Trend, fit_trend

DRAWS = "rows are set aside at random, so a row of weight 2 is not two rows"
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": DRAWS,
}


@parametrize_with_checks(
    [BoostedRegressor(quality=1, n_jobs=1), BoostedClassifier(quality=1, n_jobs=1)],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_regression(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.standard_normal(n)).astype(np.float32)


def make_frame(n=800, seed=0):
    """A number, a category of many values and one of few; a class."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    effect = rng.standard_normal(150)
    many, few, x = rng.integers(0, 150, n), rng.integers(0, 3, n), rng.standard_normal(n)
    y = effect[many] + 0.5 * (few == 1) + 0.5 * x + 0.5 * rng.standard_normal(n) > 0
    text = pd.Categorical([f"c{i}" for i in many])
    frame = pd.DataFrame({"x": x, "many": text, "few": pd.Categorical(few)})
    return frame, np.where(y, "yes", "no")


@pytest.mark.parametrize("quality", [1, 4])
def test_files_pickles_and_threads_keep_every_bit(quality, tmp_path):
    frame, y = make_frame(300)
    models = [BoostedClassifier(quality=quality, n_jobs=n, n_ensembles=2 if quality == 4 else None) for n in (1, 2)]
    found = [model.fit(frame, y).predict_proba(frame) for model in models]
    np.testing.assert_array_equal(found[0], found[1])
    assert models[0].choices_ == models[1].choices_
    for name in ("m.json", "m.ubj"):
        models[0].save_model(tmp_path / name)
        again = BoostedClassifier()
        again.load_model(tmp_path / name)
        np.testing.assert_array_equal(again.predict_proba(frame), found[0])
        assert again.choices_ == models[0].choices_
        assert again.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(models[0])).predict_proba(frame), found[0])
    with pytest.raises(TypeError, match="BoostedClassifier"):
        BoostedRegressor().load_model(tmp_path / "m.json")
    json.dumps(models[0].choices_)


def test_many_categories_get_statistics_and_beat_a_guess():
    frame, y = make_frame(2000)
    model = BoostedClassifier(quality=2).fit(frame[:1500], y[:1500])
    assert all(member._learner.statistics is not None for member in model.members_)
    assert model.score(frame[1500:], y[1500:]) > 0.7
    assert model.choices_["refit_rows"] == 1500


def test_several_members_beat_their_mean():
    X, y = make_regression(600)
    model = BoostedRegressor(quality=4, n_ensembles=3).fit(X[:200], y[:200])
    assert len(model.members_) == model.choices_["members"] == 3

    def error(prediction):
        return float(np.mean((prediction - y[200:]) ** 2))

    single = []
    for i in range(3):
        alone = pickle.loads(pickle.dumps(model))
        alone.members_, alone.trends_ = [model.members_[i]], [model.trends_[i]]
        single.append(error(alone.predict(X[200:])))
    assert error(model.predict(X[200:])) < np.mean(single)


def test_intervals_hold_what_they_promise():
    X, y = make_regression(4000)
    model = BoostedRegressor(quality=1).fit(X[:2000], y[:2000])
    for coverage in (0.5, 0.9):
        interval = model.predict_interval(X[2000:], coverage)
        inside = (interval[:, 0] <= y[2000:]) & (y[2000:] <= interval[:, 1])
        assert abs(inside.mean() - coverage) < 0.06
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(X, 1.5)


def test_temperature_undoes_overconfidence():
    rng = np.random.default_rng(0)
    margin = rng.standard_normal(20_000)
    label = rng.random(20_000) < 1 / (1 + np.exp(-margin))
    assert fit_temperature(3.0 * margin, label.astype(np.float32), None) == pytest.approx(3.0, rel=0.05)
    assert fit_temperature(margin, np.ones(20_000), None) == 1.0
    weight = np.where(np.arange(20_000) < 500, 1.0, 0.0).astype(np.float32)
    few = fit_temperature(3.0 * margin, label.astype(np.float32), weight)
    assert few == pytest.approx(fit_temperature(3.0 * margin[:500], label[:500].astype(np.float32), None))
    assert few > 1.5
    assert fit_temperature(1.1 * margin[:50], label[:50].astype(np.float32), None) == 1.0  # too few to tell


def test_interval_width_is_the_conformal_quantile():
    errors = np.arange(1.0, 100.0)  # 99 of them
    assert interval_width(residual_sample(errors), 99, 0.9) == 90.0
    assert len(residual_sample(np.random.default_rng(0).random(10_000))) == 2001


def test_a_trend_goes_on_where_trees_end():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 1, 500), rng.integers(0, 2, 500)])
    X[::50, 0] = np.nan
    y = 3 * np.nan_to_num(X[:, 0], nan=0.5) + X[:, 1]
    trend = fit_trend(xgb.DMatrix(X, y))
    np.testing.assert_allclose(trend.slope, [3.0, 1.0], rtol=0.02)
    again = Trend.from_json(json.loads(json.dumps(trend.to_json())))
    np.testing.assert_array_equal(again.margin(xgb.DMatrix(X)), trend.margin(xgb.DMatrix(X)))
    steep = BoostedRegressor(quality=3).fit(X, y)
    assert "linear trend" in steep.choices_["model"]


def test_limits_are_kept():
    X, y = make_regression(3000)
    quick = BoostedRegressor(quality=5, time_limit=1e-6).fit(X, y)
    assert len(quick.members_) == 1
    assert quick.members_[0].num_boosted_rounds() == 1
    with pytest.raises(xgb.core.XGBoostError, match="memory_limit"):
        BoostedRegressor(memory_limit=1000).fit(X, y)
    small = BoostedRegressor(quality=2, memory_limit=14 * 300 * 5 + 24 * 300 + 1).fit(X[:300], y[:300])
    assert len(small.choices_["auditions"]) == 1


class Interrupted(BoostedRegressor):
    """Somebody presses Ctrl-C when the first heat is over."""

    def _say(self, text):
        raise KeyboardInterrupt


def test_an_interrupt_leaves_the_best_so_far():
    X, y = make_regression(200)
    model = Interrupted(quality=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.score(X, y) > 0.3


class Interrupting(Clock):
    """Somebody presses Ctrl-C before the fifth round."""

    asked = 0

    def is_over(self, share=1.0):
        self.asked += 1
        if self.asked == 4:
            raise KeyboardInterrupt
        return False


def test_an_interrupt_of_the_first_contender_leaves_its_rounds():
    X, y = make_regression()
    kept = []
    race = Race(5, 40, 10, Interrupting(), 1.0, lambda text: None, kept.append)
    with pytest.raises(KeyboardInterrupt):
        race.run(contenders((3, 2), X, y))
    assert [contender.best_model().num_boosted_rounds() for contender in kept] == [4]


def test_wrong_parameters_are_named():
    X, y = make_regression(100)
    for wrong in ({"quality": 6}, {"time_limit": 0}, {"n_ensembles": 0}, {"memory_limit": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            BoostedRegressor(**wrong).fit(X, y)


def test_choices_are_printed(capsys):
    X, y = make_regression(300)
    BoostedRegressor(quality=2, verbose=True).fit(X, y)
    assert "chosen: " in capsys.readouterr().out


def contenders(depths, X, y):
    train, valid = xgb.DMatrix(X[:400], y[:400]), xgb.DMatrix(X[400:], y[400:])
    shared = {"objective": "reg:squarederror", "eta": 0.3, "verbosity": 0}
    return [Contender(str(d), shared | {"max_depth": d}, [Part(train, valid)]) for d in depths]


def test_the_better_half_of_the_challengers_goes_on():
    X, y = make_regression()
    champion, *others = contenders((1, 2, 3, 6, 5), X, y)
    kept = []
    ranking = Race(5, 40, 10, Clock(), 1.0, lambda text: None, kept.append).run([champion, *others])
    assert sorted(len(c.scores) for c in others)[:3] == [5, 5, 10]
    assert ranking[0] is not champion
    assert is_better(ranking[0], champion)
    assert {c.name for c in ranking} == {"1", "2", "3", "6", "5"}
    assert kept[-1].best_score == min(c.best_score for c in ranking)


def test_who_is_behind_the_champion_is_out_at_once():
    X, y = make_regression()
    champion, *others = contenders((3, 1, 3, 2), X, y)
    ranking = Race(4, 40, 10, Clock(), 1.0, lambda text: None, lambda c: None).run([champion, *others])
    assert [len(c.scores) for c in others] == [4, len(champion.scores), 4]  # the champion's twin is level with it
    assert ranking[0] is champion


def test_a_challenger_that_is_no_better_than_chance_does_not_win():
    X, y = make_regression()
    champion, twin = contenders((3, 3), X, y)
    assert Race(5, 20, 10, Clock(), 1.0, lambda text: None, lambda c: None).run([champion, twin])[0] is champion
    assert not is_better(twin, champion)


def test_a_contender_of_folds_is_scored_on_all_their_rows():
    """The score is the loss of all validation rows, each weighed, whatever part it belongs to."""
    X, y = make_regression()
    weight = np.linspace(0.5, 2.0, len(y)).astype(np.float32)
    data = xgb.DMatrix(X, y, weight=weight)
    held = [np.arange(0, 50), np.arange(50, 200)]
    parts = [Part(data.slice(np.setdiff1d(np.arange(len(y)), rows)), data.slice(rows)) for rows in held]
    contender = Contender("both", {"objective": "reg:squarederror", "max_depth": 2, "verbosity": 0}, parts)
    contender.advance(4, 10, Clock())
    assert contender.n_rounds == len(contender.scores) == 4
    rows = np.concatenate(held)
    np.testing.assert_array_equal(contender.row_weights(), weight[rows])
    np.testing.assert_allclose(contender.row_losses(), (contender.held_out() - y[rows]) ** 2, rtol=1e-6)
    mean = np.average(contender.row_losses(), weights=weight[rows])
    assert contender.scores[contender.best_round] == pytest.approx(np.sqrt(mean), rel=1e-5)


def test_few_rows_are_all_held_out_once_and_the_rounds_are_raised():
    X, y = make_regression(300)
    model = BoostedRegressor(quality=3).fit(X, y)
    choices = model.choices_
    assert choices["folds"] == 3
    assert choices["validation_rows"] == model._n_heldout == choices["refit_rows"] == 300
    assert model.members_[0].num_boosted_rounds() == choices["rounds"]
    assert rounds_of_more_rows(100, 2 / 3) == 133
    assert rounds_of_more_rows(100, 1.0) == 100
    own_split = BoostedRegressor(quality=3, validation_fraction=0.25).fit(X, y)
    assert own_split.choices_["validation_rows"] == 75


@pytest.mark.parametrize(
    ("facts", "names", "vectors"),
    [
        (Facts(4000, 50, 7, 0, True, False), ["trees with vectors of classes", "symmetric trees"], "symmetric"),
        (Facts(4000, 784, 10, 0, True, False), ["trees with vectors of classes"], "lossguide"),
        (Facts(4000, 50, 60, 0, True, False), ["trees with vectors of classes"], "symmetric"),
        (Facts(4000, 50, 3, 9, True, False), ["trees with vectors of classes", "symmetric trees"], "symmetric"),
        (Facts(4000, 50, 3, 0, False, False), ["deep symmetric trees"], None),
    ],
)
def test_what_auditions_for_several_outputs(facts, names, vectors):
    """Trees with vectors split no categories: they see statistics. Symmetric ones of many columns would take long."""
    found = recipes(3, facts)
    assert [recipe.name for recipe in found] == names
    if vectors is not None:
        params = found[0].params
        assert (params["multi_strategy"], params["grow_policy"]) == ("multi_output_tree", vectors)
        assert params.get("cat_strategy") == ("ordered_ts" if facts.most_categories else None)


def test_vectors_of_classes_take_categories_and_keep_every_bit(tmp_path):
    frame, y = make_frame(400)
    classes = np.where(frame["x"] > 1, "more", y)
    models = [BoostedClassifier(quality=3, n_jobs=n).fit(frame, classes) for n in (1, 2)]
    found = [model.predict_proba(frame) for model in models]
    np.testing.assert_array_equal(found[0], found[1])
    assert "trees with vectors of classes" in models[0].choices_["auditions"]
    models[0].save_model(tmp_path / "m.json")
    again = BoostedClassifier()
    again.load_model(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict_proba(frame), found[0])


def test_flags_may_be_split_off_with_few_rows():
    """A flag that few rows have may be all that tells a rare class: their hessians add up to little."""
    rng = np.random.default_rng(0)
    flags = (rng.random((400, 6)) < 0.1).astype(np.float32)
    flags[rng.random(flags.shape) < 0.1] = np.nan
    table = np.hstack([flags, rng.normal(size=(400, 4)).astype(np.float32)])
    y = rng.integers(0, 2, 400)
    for data, expected in ((table, 0.3), (table[:, 4:], 1.0), (scipy.sparse.csr_matrix(flags > 0), 0.3)):
        model = BoostedClassifier(quality=1, n_jobs=1).fit(data, y)
        config = json.loads(model.members_[0].save_config())
        least = config["learner"]["gradient_booster"]["tree_train_param"]["min_child_weight"]
        assert float(least) == pytest.approx(expected)


def test_steps_after_auditions_are_finer():
    effort = effort_for(3, Facts(1000, 5, 1, 0, True, True))
    forest = finer({"eta": 0.75, "num_parallel_tree": 2}, effort)
    assert forest == {"eta": 0.25, "num_parallel_tree": 6}
    assert finer({"eta": 0.75}, effort) == {"eta": 0.25}
    many_classes = effort_for(3, Facts(1000, 5, 4, 0, True, False))
    assert (many_classes.folds, many_classes.finer) == (1, 1)
    assert effort_for(3, Facts(10**6, 5, 1, 0, True, True)).folds == 1
    assert effort_for(3, Facts(999, 5, 4, 0, True, False)).folds == 3


def test_what_took_many_rounds_is_not_trained_again_with_many_more():
    effort = effort_for(3, Facts(1000, 5, 1, 0, True, True))
    assert [refit_effort(effort, n).finer for n in (1, 400, 401, 700, 5000)] == [3, 3, 2, 1, 1]


def test_members_with_and_without_a_trend_do_not_mix():
    """A trend is the start of one member only."""
    X, y = make_regression(300)
    data = xgb.DMatrix(X, y)
    model = BoostedRegressor(quality=1).fit(X, y)
    expected = model.predict(X)
    trend = fit_trend(data)
    model.members_, model.trends_ = model.members_ * 2, [trend, None]
    shift = trend.margin(data) - float(model.members_[0]._learner.base_margin()[0])
    np.testing.assert_allclose(model.predict(X), expected + shift / 2, rtol=1e-4, atol=1e-4)
