"""`collective` of one process against XGBoost's, and the small modules beside it: objective, compat, interpret."""

import dataclasses
import sys

import numpy as np
import pytest

import arboost
from arboost import collective, compat
from arboost.objective import Objective, TreeObjective
from arboost.runtime.errors import XGBoostError
from child_process import need, run_code

xgboost = pytest.importorskip("xgboost")
LIBRARIES = [arboost, xgboost]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def either(request):
    return request.param.collective


# ---- what both do ----


def test_alone(either):
    assert either.get_rank() == 0
    assert either.get_world_size() == 1
    assert either.is_distributed() is False
    assert either.get_processor_name() == xgboost.collective.get_processor_name()


@pytest.mark.parametrize("op", collective.Op.__members__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64])
def test_reduction_of_one_is_a_flat_copy(either, op, dtype):
    data = np.arange(6, dtype=dtype).reshape(2, 3)
    found = either.allreduce(data, either.Op[op])
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.arange(6))
    found[0] = 9
    assert data[0, 0] == 0


def test_what_cannot_be_reduced(either):
    with pytest.raises(TypeError, match=r"only takes in numpy.ndarray"):
        either.allreduce([1.0], either.Op.SUM)
    with pytest.raises(TypeError, match="data type bool is not supported"):
        either.allreduce(np.array([True]), either.Op.SUM)


def test_broadcast(either):
    message = {"a": [1, 2], "b": "c"}
    assert either.broadcast(message, 0) == message
    with pytest.raises((ValueError, AssertionError), match="need to pass in data"):
        either.broadcast(None, 0)


def test_printing(either, capfd):
    either.communicator_print("  scores \n")
    either.communicator_print(3)
    assert capfd.readouterr().out == "scores\n3\n"


def test_init_and_finalize(either):
    either.init()
    assert either.get_world_size() == 1
    either.finalize()
    either.finalize()
    with pytest.raises(ValueError, match="Invalid communicator type"):
        either.init(dmlc_communicator="nonsense")
    with pytest.raises(ValueError):
        either.signal_error()


def test_configuration_of_a_communicator(either):
    config = either.Config(retry=2, timeout=30, tracker_port=9000)
    assert config.get_comm_config({"dmlc_task_id": "x"}) == {"dmlc_task_id": "x", "dmlc_retry": 2, "dmlc_timeout": 30}
    assert either.Config().get_comm_config({}) == {}
    names = ["retry", "timeout", "tracker_host_ip", "tracker_port", "tracker_timeout"]
    assert [field.name for field in dataclasses.fields(config)] == names


# ---- what only ours does ----


def test_context_of_one_worker():
    with collective.CommunicatorContext(dmlc_retry=3) as args:
        assert args == {"dmlc_retry": 3}
        assert collective.get_rank() == 0
    with pytest.raises(XGBoostError, match="Invalid root 1"):
        collective.broadcast("x", 1)
    with pytest.raises(ValueError):
        collective.allreduce(np.ones(2), 99)


@pytest.mark.parametrize(
    "args, message",
    [
        ({"DMLC_TRACKER_URI": "127.0.0.1"}, "A tracker has a `dmlc_tracker_uri` and a `dmlc_tracker_port`"),
        ({"dmlc_tracker_uri": "127.0.0.1", "dmlc_tracker_port": "x"}, "An address is 'host:port'"),
        (
            {"dmlc_tracker_uri": "127.0.0.1", "dmlc_tracker_port": 9, "dmlc_timeout": -1},
            "dmlc_timeout must be at least",
        ),
        ({"dmlc_tracker_uri": "127.0.0.1", "dmlc_tracker_port": 9, "dmlc_retry": 0}, "127.0.0.1:9 cannot be reached"),
        ({"dmlc_communicator": "federated"}, "Federated learning is not available"),
        ({"federated_server_address": "127.0.0.1"}, "Federated learning is not available"),
    ],
)
def test_no_group_comes_of_this(args, message):
    with pytest.raises(ValueError, match=message):
        collective.init(**args)
    assert collective.get_world_size() == 1
    collective.finalize()


def test_mpi_is_asked_for_and_absent(monkeypatch):
    """A launcher's processes that do not find each other would each train alone."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(XGBoostError, match=r"need mpi4py and an MPI for it: pip install 'arboost\[mpi\]'"):
        collective.init(dmlc_communicator="mpi")
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.setenv(name, "2")
        with pytest.raises(XGBoostError, match="need mpi4py"):
            collective.init()
        monkeypatch.delenv(name)
    collective.init()
    assert not collective.is_distributed()


def test_mpi4py_without_an_mpi(tmp_path):
    need("mpi4py")
    code = """
        import os
        os.environ["MPI4PY_LIBMPI"] = "no such library"
        from arboost import collective
        try:
            collective.init(dmlc_communicator="mpi")
        except ValueError as error:
            print(error)
    """
    assert "need mpi4py and an MPI for it" in run_code(tmp_path, code)


@pytest.mark.parametrize("rank", [-1, 1])
def test_ranks_without_an_address(rank):
    with (
        pytest.raises(XGBoostError, match=f"Invalid rank {rank}: there are 1 addresses"),
        collective.connect(rank, ["127.0.0.1:1"]),
    ):
        pass


def test_training_inside_a_context():
    data = arboost.DMatrix(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    outside = arboost.train({"max_depth": 2}, data, 3).save_raw()
    with collective.CommunicatorContext():
        assert arboost.train({"max_depth": 2}, data, 3).save_raw() == outside


# ---- objective ----


def squared_error(margin, data):
    return margin - data.get_label(), np.ones_like(margin)


@pytest.mark.parametrize("base", ["Objective", "TreeObjective"])
def test_objective_objects(base):
    """The same trees as from a function, and the round is told."""
    X = np.random.default_rng(0).random((60, 3)).round(2)
    predictions = []
    for library in LIBRARIES:

        class SquaredError(getattr(library.objective, base)):
            rounds = []

            def __call__(self, iteration, y_pred, dtrain):
                self.rounds.append(iteration)
                return squared_error(y_pred, dtrain)

        data = library.DMatrix(X, X[:, 0] - X[:, 1])
        params = {"max_depth": 2, "base_score": 0.0}
        booster = library.train(params, data, 3, obj=SquaredError())
        assert SquaredError.rounds == [0, 1, 2]
        np.testing.assert_array_equal(
            booster.predict(data), library.train(params, data, 3, obj=squared_error).predict(data)
        )
        predictions.append(booster.predict(data))
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-4, atol=1e-6)


def test_objective_objects_that_cannot_be_used():
    class Other(TreeObjective):
        def __call__(self, iteration, y_pred, dtrain):
            return squared_error(y_pred, dtrain)

        def split_grad(self, iteration, grad, hess):
            return grad, hess

    data = arboost.DMatrix(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    with pytest.raises(XGBoostError, match="split_grad"):
        arboost.train({}, data, 1, obj=Other())
    with pytest.raises(TypeError, match="abstract"):
        Objective()


# ---- compat ----


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_frames_are_recognised(library):
    theirs = library.compat
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame({"a": [1]}), pandas.Series([1])]
    for name, make in (("polars", lambda m: m.DataFrame({"a": [1]})), ("pyarrow", lambda m: m.table({"a": [1]}))):
        frames.append(make(pytest.importorskip(name)))
    assert all(theirs.is_dataframe(frame) for frame in frames)
    assert not any(theirs.is_dataframe(other) for other in (np.zeros(2), [1], "x", None))
    assert theirs.is_pandas_available()
    assert theirs.import_pandas() is pandas
    assert theirs.lazy_isinstance(frames[0], type(frames[0]).__module__, "DataFrame")


def test_pieces_are_stacked():
    import scipy.sparse

    for pieces in (
        [np.eye(2), np.zeros((1, 2))],
        [scipy.sparse.csr_matrix(np.eye(2))] * 2,
        [scipy.sparse.csc_matrix(np.eye(2))] * 2,
        [scipy.sparse.coo_matrix(np.eye(2))] * 2,
    ):
        ours, theirs = compat.concat(pieces), xgboost.compat.concat(pieces)
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(*(m.toarray() if scipy.sparse.issparse(m) else m for m in (ours, theirs)))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2]})
    assert compat.concat([frame, frame]).equals(pandas.concat([frame, frame]))
    with pytest.raises(TypeError, match="Unknown type"):
        compat.concat(["x"])


def test_scikit_learn_by_xgboosts_names():
    pytest.importorskip("sklearn")
    for name in ("SKLEARN_INSTALLED", "XGBModelBase", "XGBClassifierBase", "XGBRegressorBase", "XGBStratifiedKFold"):
        assert getattr(compat, name) is getattr(xgboost.compat, name)
    with pytest.raises(AttributeError):
        _ = compat.nonsense


# ---- interpret ----


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_explanations_add_up(objective):
    from arboost.interpret import shap_values

    X = np.random.default_rng(0).random((80, 4)).round(2)
    params = {"max_depth": 3, "objective": objective} | ({"num_class": 3} if objective.startswith("multi") else {})
    booster = arboost.train(params, arboost.DMatrix(X, np.arange(80) % 3), 4)
    values, bias = shap_values(booster, X)
    margin = booster.predict(arboost.DMatrix(X), output_margin=True)
    assert values.shape == (*margin.shape, 4)
    assert bias.shape == margin.shape
    np.testing.assert_allclose(values.sum(axis=-1) + bias, margin, atol=1e-5)
    part = shap_values(booster, arboost.DMatrix(X), iteration_range=(0, 2))[0]
    assert not np.allclose(part, values)
    with pytest.raises(ValueError, match="`missing` must not be specified"):
        shap_values(booster, arboost.DMatrix(X), missing=0.0)
    with pytest.raises(XGBoostError, match="X_background"):
        shap_values(booster, X, X_background=X)
    with pytest.raises(TypeError, match="Booster"):
        shap_values("model", X)


# ---- configurations travel ----


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "reg:quantileerror", "reg:tweedie"])
def test_xgboost_takes_our_configuration(objective):
    import json

    X = np.random.default_rng(0).random((60, 3))
    params = {"objective": objective, "eta": 0.2, "subsample": 0.7, "seed": 5, "max_depth": 3, "nthread": 2}
    params |= {"multi:softprob": {"num_class": 3}, "reg:quantileerror": {"quantile_alpha": [0.2, 0.7]}}.get(
        objective, {}
    )
    configs = []
    for library in LIBRARIES:
        booster = library.train(params, library.DMatrix(X, np.arange(60) % 3), 2)
        configs.append(booster.save_config())
    ours, theirs = (json.loads(text) for text in configs)
    score = [json.loads(config["learner"]["learner_model_param"].pop("base_score")) for config in (ours, theirs)]
    np.testing.assert_allclose(*score, rtol=1e-5)
    assert ours == theirs
    data = xgboost.DMatrix(X, np.arange(60) % 3)
    taker = xgboost.Booster(params={"num_class": params.get("num_class", 0)}, cache=[data])
    taker.load_config(configs[0])
    taken = json.loads(taker.save_config())["learner"]
    for part in ("generic_param", "learner_train_param", "objective", "metrics"):
        assert taken[part] == theirs["learner"][part]
    assert taken["gradient_booster"]["tree_train_param"] == theirs["learner"]["gradient_booster"]["tree_train_param"]
