"""Several workers, each with its share of the rows, train the very model that one machine trains, and see its scores.

Workers are threads here. Shares are unequal; some have no rows at all, one has a single row.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse

import arboost
import pages
from arboost import collective
from arboost.matrix import cuts
from arboost.runtime import comm as comms
from arboost.runtime.errors import XGBoostError
from thread_workers import run_workers
from worker_cases import (
    BINARY,
    CATEGORIES,
    CLASSES,
    COMMON,
    COUNTS,
    ENDS,
    GROUP,
    KINDS,
    N_ROWS,
    TARGETS,
    WEIGHT,
    X,
    Y,
    matrix_of,
    share_of,
    train,
)


def check(world_size, work, ends=None):
    """Every worker's result is that of one machine."""
    alone = work(slice(0, N_ROWS))
    found = run_workers(world_size, lambda comm: work(share_of(world_size, comm.rank, ends)))
    assert [part[1] for part in found] == [alone[1]] * world_size
    assert [part[0] == alone[0] for part in found] == [True] * world_size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", COUNTS)
def test_workers_train_the_model_of_one_machine(kind, world_size):
    params, fields = KINDS[kind]
    check(world_size, lambda rows: train(params, fields, rows))


# ---- shares that are out of the ordinary ----

ORDERED = ["subsample", "gradient sample", "forest", "vectors", "vectors of gradient samples", "random pairs"]
ORDERED += ["unbiased", "unbiased pairs", "one list", "all means", "ndcg", "map", "approx sample", "weighted quantiles"]


def dealt_matrix(fields, rank):
    """Blocks of rows that lie between those of other workers; the third worker has none."""
    ends = GROUP * np.array([0, 5, 6, 20, 21, 40, 50])
    blocks = list(itertools.pairwise(ends))[rank::2] if rank < 2 else []
    rows = np.concatenate([np.arange(a, b) for a, b in blocks] or [np.zeros(0, int)])
    starts = np.cumsum([0, *(b - a for a, b in blocks)])
    numbers = {N_ROWS: rows, N_ROWS // GROUP: rows[::GROUP] // GROUP}  # of rows and of groups
    fields = {
        name: values[numbers[len(values)]] if np.ndim(values) and len(values) in numbers else values
        for name, values in ({"label": Y} | fields).items()
    }
    matrix = arboost.DMatrix(X[rows], **fields, nthread=1)
    matrix.info.runs = [comms.Run(s, s + b - a, a - s) for s, (a, b) in zip(starts.tolist(), blocks)]
    return matrix


@pytest.mark.parametrize("kind", ORDERED)
def test_rows_that_lie_between_those_of_others(kind):
    """Ids of rows, not ranks, decide what is drawn and in which order floats are added."""
    params, fields = KINDS[kind]

    def work(comm):
        return train(params, fields, make=lambda fields, _: dealt_matrix(fields, comm.rank))

    assert run_workers(3, work) == [train(params, fields)] * 3


ODD_ENDS = {
    "one row": [1, 2, 300, N_ROWS],
    "one has all": [0, N_ROWS, N_ROWS],
    "all but one": [N_ROWS - 1, N_ROWS],
}


@pytest.mark.parametrize("ends", ODD_ENDS)
@pytest.mark.parametrize(
    "kind",
    [
        "weights",
        "weighted classes",
        "weighted quantiles",
        "sets",
        "hardly any row",
        "approx sample",
        "targets with gaps",
    ],
)
def test_odd_shares(kind, ends):
    params, fields = KINDS[kind]
    check(len(ODD_ENDS[ends]), lambda rows: train(params, fields, rows), ODD_ENDS[ends])


@pytest.mark.parametrize("max_bin", [256, 255, 40])
@pytest.mark.parametrize("feature", [1, 3])
def test_values_that_one_share_alone_lacks(feature, max_bin):
    """A column of NaN in one share, and one without any, have the bins of all: 256 would not leave a missing code."""
    data = X.copy()
    data[:, 3] = np.arange(N_ROWS)
    data[200:400, feature] = np.nan

    def work(rows):
        make = lambda fields, rows: matrix_of(fields, rows, data=data)  # noqa: E731
        return train({"max_bin": max_bin}, {}, rows, make=make)

    check(3, work, [200, 400, N_ROWS])


def test_classes_that_one_share_alone_lacks():
    label = np.sort(CLASSES["label"])
    params = {"objective": "multi:softprob", "num_class": 3, "eval_metric": ["mlogloss", "merror", "auc", "aucpr"]}
    check(5, lambda rows: train(params, {"label": label}, rows))


def test_weights_that_are_all_zero_in_one_share():
    weight = np.repeat([0.0, 1.5, 0.0], [300, 100, 200])
    for params in ({}, {"objective": "reg:absoluteerror"}, {"objective": "reg:quantileerror", "quantile_alpha": 0.3}):
        check(3, lambda rows, p=params: train(p, {"weight": weight}, rows), [300, 400, N_ROWS])


def test_no_rows_anywhere():
    """One that all workers lack is an empty data set, as on one machine."""
    with pytest.warns(UserWarning, match="Empty dataset"):
        alone = train({}, {}, slice(0, 0))
        found = run_workers(3, lambda comm: train({}, {}, slice(0, 0)))
    assert found == [alone] * 3


@pytest.mark.parametrize("world_size", [2, 5])
def test_several_threads_each(world_size):
    rng = np.random.default_rng(1)
    data, label = rng.normal(size=(60_000, 8)).astype(np.float32), rng.normal(size=60_000)
    ends = np.linspace(0, len(data), world_size + 1).astype(int) ** 2 // len(data)

    def work(rows):
        matrix, result = arboost.DMatrix(data[rows], label[rows]), {}
        options = {"evals": [(matrix, "train")], "evals_result": result, "verbose_eval": False}
        params = {"nthread": 3, "max_depth": 6, "subsample": 0.8, "eval_metric": ["rmse", "auc"]}
        return bytes(arboost.train(params, matrix, 2, **options).save_raw()), repr(result)

    label = (label > 0).astype(int)
    alone = work(slice(0, len(data)))
    found = run_workers(world_size, lambda comm: work(slice(ends[comm.rank], ends[comm.rank + 1])))
    assert found == [alone] * world_size


# ---- kinds of data ----


@pytest.mark.parametrize("world_size", COUNTS)
def test_quantile_matrices(world_size):
    """Bins are made of all shares at once; those for evaluation take them from the training data."""

    def work(rows):
        kind = arboost.QuantileDMatrix
        matrix, result = matrix_of(WEIGHT, rows, kind), {}
        other = matrix_of(WEIGHT, rows, lambda *args, **fields: kind(*args, **fields, ref=matrix), X + 0.5)
        options = {"evals": [(matrix, "train"), (other, "other")], "evals_result": result, "verbose_eval": False}
        return bytes(arboost.train(COMMON, matrix, 3, **options).save_raw()), repr(result)

    check(world_size, work)


@pytest.mark.parametrize("method", ["hist", "approx"])
@pytest.mark.parametrize("ends", [[200, 200, N_ROWS], [0, N_ROWS, N_ROWS]], ids=["parts", "one has all"])
@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, np.asarray], ids=["sparse", "one-hot"])
def test_sparse_and_exclusive_columns(form, ends, method):
    """Columns that one machine bundles, or keeps by their entries."""
    hot = np.zeros((N_ROWS, 20), np.float32)
    hot[np.arange(N_ROWS), np.random.default_rng(2).integers(0, 20, N_ROWS)] = 1
    hot[:50, 0] = hot[:50, 1] * 3
    hot[0, 19] = 7
    data = form(hot)

    def work(rows):
        make = lambda fields, rows: matrix_of(fields, rows, data=data)  # noqa: E731
        return train({"tree_method": method}, {"label": Y + 3 * hot[:, 0]}, rows, make=make)

    check(3, work, ends)


class Batches(arboost.DataIter):
    """Some rows, a few at a time."""

    def __init__(self, rows, **options):
        super().__init__(**options)
        self.starts, self.stop = range(rows.start, rows.stop, 70), rows.stop
        self.reset()

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.starts):
            return False
        rows = slice(self.starts[self.at], min(self.starts[self.at] + 70, self.stop))
        self.at += 1
        input_data(data=X[rows], label=Y[rows])
        return True


def test_batches_on_some_workers(monkeypatch):
    """Shares that are read anew for every few features, next to one that lies in memory, and one without rows."""
    monkeypatch.setattr(cuts, "_TILE_CELLS", 2 * 258 * 256)

    def make(fields, rows):
        if rows.start >= 300 or rows.start == rows.stop:
            return matrix_of(fields, rows, arboost.QuantileDMatrix)
        return arboost.QuantileDMatrix(Batches(rows), nthread=1)

    check(4, lambda rows: train({}, {}, rows, make=make), [200, 200, 300, N_ROWS])


@pytest.mark.parametrize("kind", ["deep", "subsample", "monotone"])
def test_pages_on_disk_of_some_workers(kind, tmp_path):
    """Shares on five pages, and on one, next to one in memory and one without rows."""

    def make(fields, rows):
        if rows.start >= 400 or rows.start == rows.stop:
            return matrix_of(fields, rows, arboost.QuantileDMatrix)
        return arboost.ExtMemQuantileDMatrix(Batches(rows, cache_prefix=tmp_path, min_cache_page_bytes=1), nthread=1)

    params, fields = KINDS[kind]
    check(4, lambda rows: train(params, fields, rows, make=make), [290, 290, 330, N_ROWS])


def frame_of(rows, categories=("a", "b", "c")):
    pandas = pytest.importorskip("pandas")
    codes = np.nan_to_num(X[rows, 2]).astype(int)
    column = pandas.Categorical.from_codes(codes, list(categories))
    return pandas.DataFrame({"x": X[rows, 0], "kind": column})


@pytest.mark.parametrize("world_size", COUNTS)
def test_frames_with_the_same_categories(world_size):
    def make(fields, rows):
        return arboost.DMatrix(frame_of(rows), Y[rows], enable_categorical=True, nthread=1)

    check(world_size, lambda rows: train({}, {}, rows, make=make))


def test_a_matrix_that_was_trained_on_alone():
    """What was made for one machine is made anew for workers."""
    parts = [matrix_of({}, share_of(2, rank)) for rank in range(2)]
    for part in parts:
        arboost.train(COMMON, part, 1)
    alone = bytes(arboost.train(COMMON, matrix_of({}, slice(0, N_ROWS)), 2).save_raw())
    models = run_workers(2, lambda comm: arboost.train(COMMON, parts[comm.rank], 2))
    assert [bytes(model.save_raw()) for model in models] == [alone] * 2
    arboost.train(COMMON, parts[0], 1, xgb_model=models[0])  # and for one machine again


# ---- more than a call of train ----


@pytest.mark.parametrize("world_size", COUNTS)
def test_continued_training(world_size):
    def work(rows):
        matrix = matrix_of(BINARY, rows)
        params = {**COMMON, "objective": "binary:logistic", "subsample": 0.6}
        model = arboost.train(params, matrix, 2)
        model = arboost.train(params, matrix, 2, xgb_model=bytearray(model.save_raw()))
        model = arboost.train({**params, "booster": "dart", "rate_drop": 0.5}, matrix, 2, xgb_model=model)
        return bytes(model.save_raw()), model.eval(matrix)

    check(world_size, work)


@pytest.mark.parametrize("world_size", COUNTS)
def test_updated_trees(world_size):
    def work(rows):
        model = arboost.train(COMMON, matrix_of({}, rows), 3)
        update = {**COMMON, "process_type": "update", "updater": "refresh,prune", "refresh_leaf": True, "gamma": 0.1}
        model = arboost.train(update, matrix_of({"label": Y + 1}, rows), 3, xgb_model=model)
        return bytes(model.save_raw()), ""

    check(world_size, work)


@pytest.mark.parametrize("world_size", COUNTS)
def test_early_stopping(world_size):
    """All stop in the same round, whatever their share of the evaluation data is."""

    def work(rows):
        matrix, result = matrix_of(BINARY, rows), {}
        late = slice(max(rows.start, 400), max(rows.stop, 400))  # some have training data only
        noise = (np.arange(N_ROWS) * 7919 % 3 == 0).astype(int)
        watched = [(matrix_of({"label": noise}, late), "valid")]
        params = {**COMMON, "objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}
        options = {"evals": watched, "evals_result": result, "verbose_eval": False, "early_stopping_rounds": 2}
        model = arboost.train(params, matrix, 30, **options)
        assert model.num_boosted_rounds() < 30
        return bytes(model.save_raw()), repr((result, model.best_iteration, model.best_score))

    check(world_size, work)


def test_prediction_is_a_workers_own_business():
    """One may predict, explain and save while the others do something else."""

    def work(comm):
        matrix = matrix_of(CATEGORIES, share_of(3, comm.rank))
        model = arboost.train(COMMON, matrix, 2)
        if comm.rank == 1:
            rows = matrix_of(CATEGORIES, slice(0, 50))
            found = [model.predict(rows, **{how: True}) for how in ("output_margin", "pred_leaf", "pred_contribs")]
            found.append(model.inplace_predict(X[:50]))
            again = arboost.Booster(model_file=bytearray(model.save_raw()))
            np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
            assert all(len(part) == 50 for part in found)
        return comm.allgather(b"done")

    assert run_workers(3, work) == [[b"done"] * 3] * 3


def squared_error(margin, matrix):
    return margin - matrix.get_label(), np.ones_like(margin)


def mean_error(prediction, matrix):
    return "mine", float(np.mean(np.abs(prediction - matrix.get_label())))


@pytest.mark.parametrize("world_size", COUNTS)
def test_custom_objective_and_metric(world_size):
    """Gradients are of a worker's own rows; a metric's values are averaged by rows, and asked of no empty share."""
    results = []

    def work(rows):
        matrix, result = matrix_of({}, rows), {}
        options = {"evals": [(matrix, "train")], "evals_result": result, "verbose_eval": False}
        model = arboost.train(COMMON, matrix, 3, obj=squared_error, custom_metric=mean_error, **options)
        results.append(result["train"].pop("mine"))
        return bytes(model.save_raw()), repr(result)

    check(world_size, work)
    assert all(result == results[-1] for result in results[1:])
    np.testing.assert_allclose(results[-1], results[0], rtol=1e-5)


def test_one_worker_speaks_and_saves(tmp_path, capsys):
    def work(comm):
        matrix = matrix_of({}, share_of(3, comm.rank))
        saving = arboost.callback.TrainingCheckPoint(tmp_path, interval=1)
        callbacks = [saving, arboost.callback.EvaluationMonitor()]
        arboost.train(COMMON, matrix, 3, evals=[(matrix, "train")], verbose_eval=False, callbacks=callbacks)

    run_workers(3, work)
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["[0]", "[1]", "[2]"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model_1.ubj", "model_2.ubj"]


class StopOn(arboost.callback.TrainingCallback):
    """Stops one worker."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def after_iteration(self, model, epoch, evals_log):
        return epoch == 1 and collective.get_rank() == self.rank


def test_a_callback_that_stops_one_worker_stops_all():
    work = lambda comm: arboost.train(  # noqa: E731
        COMMON, matrix_of({}, share_of(3, comm.rank)), 9, callbacks=[StopOn(2)]
    ).num_boosted_rounds()
    assert run_workers(3, work) == [2, 2, 2]


def test_collective_is_among_the_workers():
    def work(comm):
        rank, op = collective.get_rank(), collective.Op
        assert (rank, collective.get_world_size(), collective.is_distributed()) == (comm.rank, 3, True)
        with collective.CommunicatorContext():
            found = collective.allreduce(np.array([[rank, 5 - rank]]), op.SUM)
        tenths = collective.allreduce(np.array([0.1 * (rank + 1)]), op.SUM)
        bits = collective.allreduce(np.array([1 << rank]), op.BITWISE_OR)
        least = collective.allreduce(np.array([rank - 1.5]), op.MIN)
        sent = collective.broadcast({"from": rank} if rank == 1 else None, 1)
        with pytest.raises(XGBoostError, match="is for integers"):
            collective.allreduce(np.ones(1), op.BITWISE_AND)
        with pytest.raises(XGBoostError, match="Invalid root 3"):
            collective.broadcast("x", 3)
        return found.tolist(), tenths.tolist(), bits.tolist(), least.tolist(), sent

    assert run_workers(3, work) == [([3, 12], [0.1 + 0.2 + 0.1 * 3], [7], [-1.5], {"from": 1})] * 3


# ---- what cannot be ----

REFUSED = {
    "tree_method='exact'": ({"tree_method": "exact"}, {}),
    "sketch_proposal='local'": ({"tree_method": "approx", "sketch_proposal": "local"}, {}),
    "booster='gblinear'": ({"booster": "gblinear"}, {}),
    "survival:cox": ({"objective": "survival:cox"}, {"label": np.exp(Y)}),
    "cox-nloglik": ({"eval_metric": "cox-nloglik"}, {"label": np.exp(Y)}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(what):
    params, fields = REFUSED[what]

    def work(comm):
        with pytest.raises(XGBoostError, match=f"{what} is not for several workers, there are 2") as error:
            train(params, fields, share_of(2, comm.rank))
        return str(error.value)

    assert len(set(run_workers(2, work))) == 1
    train(params, fields, n_rounds=1)  # one machine can


def test_cross_validation_is_refused():
    with pytest.raises(XGBoostError, match="`cv` is not for several workers"):
        run_workers(2, lambda comm: arboost.cv(COMMON, matrix_of({}, share_of(2, comm.rank)), 2))


def shares_that_differ(comm, what):
    rows = share_of(2, comm.rank)
    is_first = comm.rank == 0
    if what == "numbers of features":
        return arboost.DMatrix(X[rows] if is_first else X[rows, :4], Y[rows])
    if what == "feature names":
        return arboost.DMatrix(X[rows], Y[rows], feature_names=list("abcde" if is_first else "abced"))
    if what == "feature types":
        return arboost.DMatrix(X[rows], Y[rows], feature_types=["q", "c" if is_first else "q", "q", "q", "q"])
    if what == "feature weights":
        return arboost.DMatrix(X[rows], Y[rows], feature_weights=np.arange(5) + comm.rank)
    if what == "categories":
        frame = frame_of(rows, "abc" if is_first else "bac")
        return arboost.DMatrix(frame, Y[rows], enable_categorical=True)
    if what == "bins":
        with comms.using(comms.LocalComm()):
            return matrix_of({}, rows, arboost.QuantileDMatrix)
    if what == "the same weight":
        return arboost.DMatrix(X[rows], Y[rows], weight=np.ones(len(Y[rows])) if is_first else None)
    if what == "the same label":
        return arboost.DMatrix(X[rows], TARGETS["label"][rows] if is_first else Y[rows])
    return arboost.DMatrix(X[rows], Y[rows], qid=np.zeros(len(Y[rows]), int) if is_first else None)


@pytest.mark.parametrize(
    "what",
    [
        "numbers of features",
        "feature names",
        "feature types",
        "feature weights",
        "categories",
        "bins",
        "the same weight",
        "the same label",
        "the same group",
    ],
)
def test_shares_that_are_not_of_one_data_set(what):
    def work(comm):
        with pytest.raises(XGBoostError, match=what):
            arboost.train(COMMON, shares_that_differ(comm, what), 1)

    run_workers(2, work)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"eta": 0.1}, "eta is 0.1.* and 0.5"),
        ({"eta": 0.5, "gamma": 1}, "gamma is 1.0 and not set"),
        ({"eta": 0.5, "eval_metric": "mae"}, "eval_metric is .*mae.* and not set"),
    ],
    ids=["value", "name", "metric"],
)
def test_parameters_that_differ(params, message):
    """Whoever trains with others trains the same model."""

    def work(comm):
        own = {"eta": 0.5} if comm.rank == 0 else params
        own = own | {"nthread": 1 + comm.rank, "verbosity": comm.rank}  # these are everybody's own business
        with pytest.raises(XGBoostError, match=f"Worker 1 and worker 0 have different parameters: {message}"):
            arboost.train(own, matrix_of({}, share_of(2, comm.rank)), 1)

    run_workers(2, work)


def test_models_that_differ():
    others = [arboost.train(COMMON | {"max_depth": depth}, matrix_of({}, slice(0, N_ROWS)), 2) for depth in (1, 2)]

    def work(comm):
        with pytest.raises(XGBoostError, match="Worker 1 and worker 0 have different trees: the last tree is"):
            arboost.train(COMMON, matrix_of({}, share_of(2, comm.rank)), 1, xgb_model=others[comm.rank])

    run_workers(2, work)


def test_an_error_on_one_worker_ends_all():
    ended = []

    def work(comm):
        label = np.where(np.arange(N_ROWS) == N_ROWS - 1, 2, 0.5)  # the last worker's is no probability
        try:
            train({"objective": "binary:logistic"}, {"label": label}, share_of(3, comm.rank))
        except XGBoostError as error:
            ended.append(str(error))
            raise

    with pytest.raises(XGBoostError, match=r"^label must be in \[0,1\]"):
        run_workers(3, work)
    assert sorted(reason.startswith("worker 2 gave up: XGBoostError: label must") for reason in ended) == [0, 1, 1]


@pytest.mark.parametrize("kind", ["regression", "subsample", "deep", "sets", "weighted quantiles", "vectors"])
@pytest.mark.parametrize("world_size", [2, 5])
def test_shares_that_lie_on_pages(kind, world_size, monkeypatch):
    params, fields = KINDS[kind]
    alone = train(params, fields)
    binned = arboost.DMatrix.binned

    def in_pages(self, ctx, max_bin, enable_bundle=False, keep_sparse=False):
        n_rows = self.num_row()
        bounds = [0] if n_rows < 40 else [0, 7, n_rows // 2]
        return pages.split_page(binned(self, ctx, max_bin), bounds)

    monkeypatch.setattr(arboost.DMatrix, "pages", in_pages)
    found = run_workers(world_size, lambda comm: train(params, fields, share_of(world_size, comm.rank)))
    assert found == [alone] * world_size


@pytest.mark.parametrize("world_size", COUNTS)
def test_estimators(world_size):
    """Classes are those of all workers, whichever of them a share has."""
    sklearn = pytest.importorskip("arboost.sklearn")
    names = np.array(["low", "middle", "high"])[np.sort(CLASSES["label"])]

    def work(rows):
        model = sklearn.XGBClassifier(n_estimators=3, max_depth=3)
        model.fit(X[rows], names[rows])
        assert model.classes_.tolist() == ["high", "low", "middle"]
        regressor = sklearn.XGBRegressor(n_estimators=2, max_depth=3).fit(X[rows], Y[rows])
        return bytes(model.get_booster().save_raw()), bytes(regressor.get_booster().save_raw()).hex()

    check(world_size, work, [GROUP * end or 12 for end in ENDS[world_size]])


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"early_stopping": True}], ids=str)
def test_what_estimators_refuse(options):
    sklearn = pytest.importorskip("arboost.sklearn")

    def work(comm):
        rows = share_of(2, comm.rank)
        with pytest.raises(XGBoostError, match=f"{next(iter(options))}.* is not for several workers"):
            sklearn.XGBClassifier(n_estimators=2, **options).fit(X[rows], BINARY["label"][rows])

    run_workers(2, work)


# ---- anything with anything ----

MORE_PARAMS = [
    {"subsample": 0.5},
    {"subsample": 0.3, "sampling_method": "gradient_based"},
    {"colsample_bynode": 0.6},
    {"max_depth": 8, "min_child_weight": 0},
    {"grow_policy": "lossguide", "max_leaves": 9},
    {"gamma": 0.5, "reg_alpha": 0.3},
    {"max_delta_step": 0.4},
    {"max_bin": 7},
    {"num_parallel_tree": 2},
    {"booster": "dart", "rate_drop": 0.5},
    {"monotone_constraints": (1, 0, -1, 0, 0)},
    {"interaction_constraints": [[0, 1], [2, 3, 4]]},
    {"tree_method": "approx"},
    {"base_score": 0.4},
]


@pytest.mark.parametrize("seed", range(24))
def test_drawn_combinations(seed):
    rng = np.random.default_rng(seed)
    params, fields = KINDS[rng.choice(list(KINDS))]
    for i in rng.choice(len(MORE_PARAMS), 2, replace=False):
        params = params | MORE_PARAMS[i]
    fields = fields | (CATEGORIES if rng.random() < 0.3 else {})
    unit = GROUP if "qid" in fields else 1
    ends = sorted((unit * rng.integers(0, N_ROWS // unit + 1, rng.integers(1, 5))).tolist())
    try:
        train(params, fields, n_rounds=1)
    except XGBoostError:
        pytest.skip("not possible on one machine either")
    check(len(ends) + 1, lambda rows: train(params, fields, rows), [*ends, N_ROWS])
