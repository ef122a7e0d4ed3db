"""`arboost.dask` as XGBoost's users know it: collections in, collections out, estimators, asynchronous clients."""

import asyncio
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import arboost
from dask_cluster import addresses, place, table

pytest.importorskip("distributed")
pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import distributed  # noqa: E402

from arboost import dask as dxgb  # noqa: E402

N = 400
X, Y = table(N)
BINARY = (Y > 0).astype(int)
PARAMS = {"max_depth": 3, "seed": 1}
X_ARRAY = da.from_array(X, chunks=(90, -1))
NAMES = list("abcde")
FRAME = pd.DataFrame(X, columns=NAMES, index=np.arange(1000, 1000 + N))


def frame_of(data=FRAME, n=4):
    return dd.from_pandas(data, npartitions=n)


def raw(booster):
    return bytes(booster.save_raw())


def alone(data=X, label=Y, params=PARAMS, n_rounds=3, **fields):
    return arboost.train(params, arboost.DMatrix(data, label, **fields), n_rounds)


def test_signatures_are_xgboosts():
    theirs = pytest.importorskip("xgboost.dask")
    for name in theirs.__all__:
        mine, other = (inspect.signature(getattr(module, name)).parameters for module in (dxgb, theirs))
        own = {"early_stopping", "validation_fraction", "class_weight"}
        if not inspect.isclass(getattr(dxgb, name)) or "DMatrix" in name:
            assert [*mine] == [*other], name
        for method in ("fit", "predict", "predict_proba", "apply"):
            if hasattr(getattr(theirs, name), method):
                mine, other = (inspect.signature(getattr(getattr(m, name), method)).parameters for m in (dxgb, theirs))
                assert {*other} - own <= {*mine}, (name, method)
    assert {*theirs.__all__} <= {*dxgb.__all__}


def test_without_dask_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['dask'] = None\ntry:\n    import arboost.dask\nexcept ImportError as e:\n    print(e)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install arboost[dask]" in ran.stdout


# ---- collections ----


@pytest.mark.parametrize("kind", [dxgb.DaskDMatrix, dxgb.DaskQuantileDMatrix])
def test_arrays(dask_client, kind):
    matrix = kind(dask_client, X_ARRAY, da.from_array(Y, chunks=150))  # other chunks, which are cut anew
    assert (matrix.num_col(), matrix.num_row(), len(matrix.partition_order)) == (5, N, 5)
    found = dxgb.train(dask_client, PARAMS, matrix, 3)
    assert sorted(found) == ["booster", "history"] and found["history"] == {}
    assert raw(found["booster"]) == raw(alone())
    prediction = dxgb.predict(dask_client, found, matrix)
    assert isinstance(prediction, da.Array) and prediction.shape == (N,)
    np.testing.assert_array_equal(prediction.compute(), found["booster"].predict(arboost.DMatrix(X)))


def test_frames_with_categories_that_differ_between_partitions(dask_client):
    """As one machine that holds the whole frame: Dask joins the categories of the partitions in their order."""
    words = np.array(["red", "green", "blue", "grey"])
    parts = [FRAME.iloc[:150].copy(), FRAME.iloc[150:].copy()]
    parts[0]["kind"] = pd.Categorical(words[np.arange(150) % 2])
    parts[1]["kind"] = pd.Categorical(words[1 + np.arange(N - 150) % 3])
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0].iloc[:0], verify_meta=False)
    whole = pd.concat([part.drop(columns="kind") for part in parts])
    whole["kind"] = pd.api.types.union_categoricals([part["kind"] for part in parts])
    label = dd.from_delayed([dask.delayed(pd.Series(Y[:150])), dask.delayed(pd.Series(Y[150:]))])
    expected = raw(alone(whole, Y, enable_categorical=True))
    for kind in (dxgb.DaskDMatrix, dxgb.DaskQuantileDMatrix):
        matrix = kind(dask_client, frame, label, enable_categorical=True)
        found = dxgb.train(dask_client, PARAMS, matrix, 3)
        assert raw(found["booster"]) == expected
    prediction = dxgb.predict(dask_client, found, frame)
    np.testing.assert_array_equal(prediction.compute(), alone(whole, Y, enable_categorical=True).inplace_predict(whole))
    with pytest.raises(ValueError, match="enable_categorical"):
        dxgb.train(dask_client, PARAMS, dxgb.DaskDMatrix(dask_client, frame, label), 1)


def test_delayed_and_sparse_partitions(dask_client):
    import scipy.sparse

    hot = np.where(np.isnan(X), 0, np.round(X))
    parts = [dask.delayed(scipy.sparse.csr_matrix)(hot[a : a + 100]) for a in range(0, N, 100)]
    labels = [dask.delayed(Y[a : a + 100]) for a in range(0, N, 100)]
    found = dxgb.train(dask_client, PARAMS, dxgb.DaskQuantileDMatrix(dask_client, parts, labels), 3)
    assert raw(found["booster"]) == raw(alone(scipy.sparse.csr_matrix(hot)))


def test_groups_in_any_order_and_across_partitions(dask_client):
    """Rows of a group are brought together, wherever they lie, as one machine would sort them."""
    qid = np.random.default_rng(2).integers(0, 30, N)
    grade = np.digitize(Y, [-1, 0, 1])
    order = np.argsort(qid, kind="stable")
    params = {**PARAMS, "objective": "rank:ndcg", "eval_metric": "ndcg"}
    expected = raw(alone(X[order], grade[order], params, qid=qid[order]))
    fields = {name: da.from_array(values, chunks=90) for name, values in (("label", grade), ("qid", qid))}
    with pytest.warns(UserWarning, match="not sorted by `qid`"):
        matrix = dxgb.DaskDMatrix(dask_client, X_ARRAY, **fields)
    assert raw(dxgb.train(dask_client, params, matrix, 3)["booster"]) == expected
    prediction = dxgb.predict(dask_client, arboost.Booster(model_file=bytearray(expected)), matrix).compute()
    np.testing.assert_array_equal(prediction, arboost.Booster(model_file=bytearray(expected)).inplace_predict(X))
    ordered = da.from_array(X[order], chunks=(90, -1))
    fields = {name: da.from_array(values[order], chunks=90) for name, values in (("label", grade), ("qid", qid))}
    matrix = dxgb.DaskDMatrix(dask_client, ordered, **fields)
    assert raw(dxgb.train(dask_client, params, matrix, 3)["booster"]) == expected


def test_feature_names_types_weights_and_missing(dask_client):
    data = np.where(np.isnan(X), -1, X)
    options = {"missing": -1, "feature_names": NAMES, "feature_types": ["q"] * 5}
    weights = np.array([1, 2, 0, 4, 5])
    params = {**PARAMS, "colsample_bynode": 0.4}
    expected = alone(data, Y, params, **options, feature_weights=weights)
    parts = place(dask_client, data, [40, 40, N], [0, 1, 2])
    labels = place(dask_client, Y, [40, 40, N], [0, 1, 2])
    for fw in (weights, da.from_array(weights)):
        matrix = dxgb.DaskQuantileDMatrix(dask_client, parts, labels, **options, feature_weights=fw)
        found = dxgb.train(dask_client, params, matrix, 3)["booster"]
        assert raw(found) == raw(expected) and found.feature_names == NAMES


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda c: dxgb.DaskDMatrix(c, X, Y), "must be a dask array"),
        (lambda c: dxgb.DaskDMatrix(c, da.from_array(X, chunks=(90, 2)), None), "partitioned by row"),
        (lambda c: dxgb.DaskDMatrix(c, da.from_array(Y, chunks=90)), "2 dimensional"),
        (lambda c: dxgb.DaskDMatrix(c, frame_of(), frame_of(n=3)["a"]), "not consistent"),
        (lambda c: dxgb.DaskDMatrix(c, X_ARRAY, group=X_ARRAY), "use qid"),
        (lambda c: dxgb.DaskDMatrix("client", X_ARRAY), "Expecting a dask client"),
        (lambda c: dxgb.DaskDMatrix(c, [dask.delayed(X)], [dask.delayed(Y[:5])]), "Partition 0: `label` has 5 rows"),
        (lambda c: dxgb.DaskDMatrix(c, [dask.delayed(X), dask.delayed(X[:, :3])]), "different numbers of columns"),
        (lambda c: dxgb.train(c, {}, X_ARRAY), "Expecting a DaskDMatrix"),
        (lambda c: dxgb.train(c, {}, dxgb.DaskDMatrix(c, X_ARRAY), evals=[(X, "a")]), "Invalid type for the `evals`"),
        (lambda c: dxgb.predict(c, "model", X_ARRAY), "Expecting a Booster"),
        (lambda c: dxgb.predict(c, alone(), X), "Expecting one of"),
        (lambda c: dxgb.inplace_predict(c, alone(), X_ARRAY, base_margin=Y), "Expecting one of"),
        (lambda c: dxgb.inplace_predict(c, alone(), frame_of(), base_margin=frame_of(n=3)["a"]), "not consistent"),
    ],
)
def test_bad_input(dask_client, make, message):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
        make(dask_client)


def test_unknown_configuration(dask_client):
    with dask.config.set({"xgboost.tracker": 1}), pytest.raises(ValueError, match="Unknown configuration"):
        dxgb.train(dask_client, {}, dxgb.DaskDMatrix(dask_client, X_ARRAY, da.from_array(Y, chunks=90)), 1)


# ---- prediction ----


KINDS = {
    "value": {},
    "margin": {"output_margin": True},
    "leaves": {"pred_leaf": True},
    "contributions": {"pred_contribs": True},
    "strict": {"strict_shape": True},
    "rounds": {"iteration_range": (0, 2)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions(dask_client, kind, n_classes):
    label = np.digitize(Y, [-1, 1]) if n_classes == 3 else BINARY
    objective = {"objective": "multi:softprob", "num_class": 3} if n_classes == 3 else {"objective": "binary:logistic"}
    model = alone(FRAME, label, {**PARAMS, **objective})
    expected = model.predict(arboost.DMatrix(FRAME), **KINDS[kind])
    array = dxgb.predict(dask_client, model, X_ARRAY, validate_features=False, **KINDS[kind])
    assert array.shape == expected.shape and array.dtype == expected.dtype
    np.testing.assert_array_equal(array.compute(), expected)
    frame = frame_of()
    if expected.ndim > 2:
        with pytest.raises(ValueError, match="more than 2 dimensions"):
            dxgb.predict(dask_client, model, frame, **KINDS[kind])
        return
    found = dxgb.predict(dask_client, model, frame, **KINDS[kind])
    assert isinstance(found, dd.Series if expected.ndim == 1 else dd.DataFrame)
    np.testing.assert_array_equal(found.compute().to_numpy(), expected)
    assert found.compute().index.equals(FRAME.index)


def test_prediction_in_place(dask_client):
    model = alone(FRAME, BINARY, {**PARAMS, "objective": "binary:logistic"})
    margin = np.linspace(-1, 1, N).astype(np.float32)
    expected = model.inplace_predict(FRAME, base_margin=margin)
    found = dxgb.inplace_predict(
        dask_client, model, X_ARRAY, base_margin=da.from_array(margin, chunks=90), validate_features=False
    )
    np.testing.assert_array_equal(found.compute(), expected)
    series = dd.from_pandas(pd.Series(margin, index=FRAME.index), npartitions=4)
    found = dxgb.inplace_predict(dask_client, {"booster": model}, frame_of(), base_margin=series)
    np.testing.assert_array_equal(found.compute().to_numpy(), expected)
    future = dask_client.submit(lambda: model, pure=False)
    found = dxgb.inplace_predict(dask_client, future, frame_of(), predict_type="margin")
    np.testing.assert_array_equal(found.compute().to_numpy(), model.inplace_predict(FRAME, predict_type="margin"))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_estimators_predict_from_margins(dask_client, n_classes):
    label = np.digitize(Y, [-1, 1]) if n_classes == 3 else BINARY
    margin = np.linspace(-1, 1, N, dtype=np.float32) if n_classes == 2 else np.stack([Y, -Y, Y / 2], axis=1)
    spread = da.from_array(margin, chunks=(90, 2) if n_classes == 3 else 150)
    model = dxgb.DaskXGBClassifier(n_estimators=3, max_depth=3)
    model.fit(
        X_ARRAY, da.from_array(label, chunks=90), base_margin=spread.rechunk({1: -1}) if n_classes == 3 else spread
    )
    plain = arboost.XGBClassifier(n_estimators=3, max_depth=3).fit(X, label, base_margin=margin)
    for method in ("predict", "predict_proba"):
        found = getattr(model, method)(X_ARRAY, base_margin=spread).compute()
        np.testing.assert_array_equal(found, getattr(plain, method)(X, base_margin=margin))


def test_prediction_is_lazy_and_knows_empty_partitions(dask_client):
    model = alone(FRAME, Y)
    frame = frame_of()
    few = frame[frame["a"] > 1.5]
    expected = model.inplace_predict(FRAME[FRAME["a"] > 1.5])
    none = frame[frame["a"] > 1e6]
    np.testing.assert_array_equal(dxgb.predict(dask_client, model, few).compute().to_numpy(), expected)
    assert dxgb.predict(dask_client, model, none).compute().shape == (0,)
    never = da.map_blocks(lambda _: 1 / 0, X_ARRAY, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    assert dxgb.predict(dask_client, model, never, validate_features=False).shape == (N,)


# ---- estimators ----


def test_regressor(dask_client):
    frame, label = frame_of(), dd.from_pandas(pd.Series(Y, index=FRAME.index), npartitions=4)
    model = dxgb.DaskXGBRegressor(n_estimators=4, max_depth=3, early_stopping_rounds=2, eval_metric="mae")
    model.client = dask_client
    assert model.fit(frame, label, eval_set=[(frame, label)], verbose=False) is model
    plain = arboost.XGBRegressor(n_estimators=4, max_depth=3, early_stopping_rounds=2, eval_metric="mae")
    plain.fit(FRAME, Y, eval_set=[(FRAME, Y)], verbose=False)
    assert raw(model.get_booster()) == raw(plain.get_booster())
    assert model.evals_result() == plain.evals_result()
    np.testing.assert_array_equal(model.predict(frame).compute().to_numpy(), plain.predict(FRAME))
    np.testing.assert_array_equal(model.apply(frame).compute(), plain.apply(FRAME))
    again = pickle.loads(pickle.dumps(model))
    assert raw(again.get_booster()) == raw(plain.get_booster())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier(dask_client, n_classes):
    """Any labels, also where some partitions lack a class."""
    codes = np.sort(np.digitize(Y, [-1, 1]) if n_classes == 3 else BINARY)
    names = np.array(["low", "middle", "high"])[codes].astype(object)
    label = da.from_array(names, chunks=90)
    model = dxgb.DaskXGBClassifier(n_estimators=3, max_depth=3)
    model.client = dask_client
    model.fit(X_ARRAY, label, eval_set=[(X_ARRAY, label)], verbose=False)
    plain = arboost.XGBClassifier(n_estimators=3, max_depth=3).fit(X, names, eval_set=[(X, names)], verbose=False)
    assert raw(model.get_booster()) == raw(plain.get_booster())
    assert model.classes_.tolist() == plain.classes_.tolist()
    np.testing.assert_array_equal(model.predict(X_ARRAY).compute(), plain.predict(X))
    proba = model.predict_proba(X_ARRAY)
    assert proba.shape == (N, n_classes)
    np.testing.assert_array_equal(proba.compute(), plain.predict_proba(X))


def test_classifier_of_frames_weights_and_class_weights(dask_client):
    label, weight = (
        dd.from_pandas(pd.Series(v, index=FRAME.index), npartitions=4) for v in (BINARY, np.linspace(1, 2, N))
    )
    options = {"n_estimators": 3, "max_depth": 3, "class_weight": {0: 1.0, 1: 3.0}}
    model = dxgb.DaskXGBClassifier(**options)
    model.client = dask_client
    model.fit(frame_of(), label, sample_weight=weight)
    plain = arboost.XGBClassifier(**options).fit(FRAME, BINARY, sample_weight=np.linspace(1, 2, N))
    assert raw(model.get_booster()) == raw(plain.get_booster())
    np.testing.assert_array_equal(model.predict(frame_of()).compute().to_numpy(), plain.predict(FRAME))
    np.testing.assert_array_equal(model.predict_proba(frame_of()).compute(), plain.predict_proba(FRAME))
    for refused in ({"early_stopping": True}, {"class_weight": "balanced"}):
        with pytest.raises(ValueError, match=next(iter(refused))):
            dxgb.DaskXGBClassifier(**refused).fit(frame_of(), label)


def test_ranker_and_forests(dask_client):
    qid, grade = np.arange(N) // 16, np.digitize(Y, [-1, 0, 1])
    arrays = {name: da.from_array(values, chunks=90) for name, values in (("qid", qid), ("y", grade))}
    model = dxgb.DaskXGBRanker(n_estimators=3, max_depth=3, allow_group_split=True).fit(X_ARRAY, **arrays)
    plain = arboost.XGBRanker(n_estimators=3, max_depth=3).fit(X, grade, qid=qid)
    assert raw(model.get_booster()) == raw(plain.get_booster())
    np.testing.assert_array_equal(model.predict(X_ARRAY).compute(), plain.predict(X))
    for name, label in (("XGBRFRegressor", Y), ("XGBRFClassifier", BINARY)):
        forest = getattr(dxgb, f"Dask{name}")(n_estimators=5, max_depth=3, random_state=3)
        forest.fit(X_ARRAY, da.from_array(label, chunks=90))
        plain = getattr(arboost, name)(n_estimators=5, max_depth=3, random_state=3).fit(X, label)
        assert raw(forest.get_booster()) == raw(plain.get_booster())
    with pytest.raises(ValueError, match="`qid` is required"):
        dxgb.DaskXGBRanker().fit(X_ARRAY, arrays["y"])


# ---- where it is called from ----


def test_an_asynchronous_client(dask_client):
    async def work():
        async with distributed.Client(dask_client.scheduler.address, asynchronous=True) as client:
            matrix = await dxgb.DaskDMatrix(client, X_ARRAY, da.from_array(Y, chunks=90))
            found = await dxgb.train(client, PARAMS, matrix, 3, evals=[(matrix, "train")], verbose_eval=False)
            prediction = await client.compute(await dxgb.predict(client, found, X_ARRAY))
            model = dxgb.DaskXGBRegressor(n_estimators=3, max_depth=3, random_state=1)
            model.client = client
            await model.fit(X_ARRAY, da.from_array(Y, chunks=90))
            fitted = await client.compute(await model.predict(X_ARRAY))
            return found, prediction, fitted

    found, prediction, fitted = asyncio.run(work())
    assert raw(found["booster"]) == raw(alone())
    assert len(found["history"]["train"]["rmse"]) == 3
    np.testing.assert_array_equal(prediction, alone().inplace_predict(X))
    np.testing.assert_array_equal(fitted, prediction)


def test_fit_within_a_task(dask_client):
    def work(data, label):
        arrays = da.from_array(data, chunks=(90, -1)), da.from_array(label, chunks=90)
        model = dxgb.DaskXGBRegressor(n_estimators=3, max_depth=3, random_state=1).fit(*arrays)
        return bytes(model.get_booster().save_raw())

    assert dask_client.submit(work, X, Y, pure=False).result() == raw(alone())


def test_training_in_as_many_tasks_as_there_are_threads(dask_client):
    """Each waits for tasks of its own, to which it leaves its place."""

    def work(data, label):
        matrix = dxgb.DaskDMatrix(None, da.from_array(data, chunks=(90, -1)), da.from_array(label, chunks=90))
        return bytes(dxgb.train(None, PARAMS, matrix, 3)["booster"].save_raw())

    tasks = [dask_client.submit(work, X, Y, workers=[address], pure=False) for address in addresses(dask_client)]
    assert dask_client.gather(tasks) == [raw(alone())] * 3


def test_partitions_that_dask_has_cancelled(dask_client):
    """As by `Client.restart`."""
    matrix = dxgb.DaskDMatrix(dask_client, X_ARRAY, da.from_array(Y, chunks=90))
    dask_client.cancel(matrix.parts, force=True)
    with pytest.raises(dxgb.WorkerLostError, match="make the DaskDMatrix anew"):
        dxgb.train(dask_client, PARAMS, matrix, 3)


def test_scores_are_printed_where_the_client_is(dask_client, capsys):
    matrix = dxgb.DaskDMatrix(dask_client, X_ARRAY, da.from_array(Y, chunks=90))
    dxgb.train(dask_client, PARAMS, matrix, 2, evals=[(matrix, "train")])
    lines = []
    for _ in range(100):  # events travel beside the result
        lines += capsys.readouterr().out.splitlines()
        if len(lines) == 2:
            break
        dask_client.run_on_scheduler(lambda: None)
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[1]"]


def test_the_communicator_of_a_task(dask_client):
    def work():
        with dxgb.CommunicatorContext() as args:
            return args["DMLC_TASK_ID"], arboost.collective.get_world_size()

    address = addresses(dask_client)[1]
    task, size = dask_client.submit(work, workers=[address], pure=False).result()
    assert task.startswith("[xgboost.dask-") and task.endswith(address) and size == 1
