"""`RabitTracker` and the workers it brings together: beside XGBoost's, and threads with real connections."""

import socket
import time
from contextlib import suppress

import numpy as np
import pytest

import arboost
from arboost import collective, tracker
from arboost.runtime.errors import CommError, XGBoostError
from arboost.tracker import RabitTracker
from groups import run_threads

xgboost = pytest.importorskip("xgboost")
HOST = "127.0.0.1"


@pytest.fixture(params=[arboost, xgboost], ids=lambda library: library.__name__)
def either(request):
    return request.param


@pytest.fixture
def started():
    """Makes trackers that end with the test."""
    made = []

    def start(n_workers, **options):
        made.append(RabitTracker(n_workers, HOST, **options))
        made[-1].start()
        return made[-1]

    yield start
    for group in made:
        group.free()


# ---- what both do ----


def test_a_worker_of_one(either, capfd):
    group = either.RabitTracker(host_ip=HOST, n_workers=1)
    group.start()
    args = group.worker_args()
    assert args.keys() == {"dmlc_tracker_uri", "dmlc_tracker_port"}
    assert args["dmlc_tracker_uri"] == HOST
    collective = either.collective
    with collective.CommunicatorContext(**args, dmlc_task_id="0") as given:
        assert given.items() >= args.items()
        assert collective.is_distributed() is True
        assert (collective.get_rank(), collective.get_world_size()) == (0, 1)
        assert collective.broadcast({"a": 1}, 0) == {"a": 1}
        np.testing.assert_array_equal(collective.allreduce(np.arange(3.0), collective.Op.SUM), np.arange(3.0))
        collective.communicator_print("  said \n")
    group.wait_for(20)
    assert collective.is_distributed() is False
    assert "said\n" in "".join(capfd.readouterr())  # XGBoost's speaks to stderr


@pytest.mark.parametrize(
    "args, error",
    [
        ({"n_workers": 1, "sortby": "x"}, ValueError),
        ({"n_workers": 0}, ValueError),
        ({"n_workers": 1, "host_ip": "no such host"}, socket.gaierror),
    ],
    ids=["sortby", "n_workers", "host_ip"],
)
def test_what_is_no_tracker(either, args, error):
    with pytest.raises(error):
        either.RabitTracker(**{"host_ip": HOST} | args)


def test_waiting_for_workers_that_do_not_come(either):
    group = either.RabitTracker(2, HOST)
    group.start()
    with pytest.raises(ValueError, match="Timeout waiting for the tracker"):
        group.wait_for(1)
    with suppress(ValueError):  # XGBoost's says it again
        group.free()


def test_families(either):
    assert either.tracker.get_family(HOST) == socket.AF_INET


# ---- workers ----


def run_workers(tracker, n, work, tasks=None, **args):
    """[work() of every worker], each a thread; errors are results."""

    def run(i):
        task = {} if tasks is None else {"dmlc_task_id": tasks[i]}
        with collective.CommunicatorContext(**tracker.worker_args(), **task, **args):
            return work()

    return run_threads([lambda i=i: run(i) for i in range(n)])


def test_ranks_by_task(started):
    """By numbers: the share of task 10 comes after that of task 9."""
    tasks = ["part-10", "part-9", "part-1"]
    group = started(3, sortby="task")
    assert run_workers(group, 3, lambda: (collective.get_rank(), collective.get_world_size()), tasks) == [
        (2, 3),
        (1, 3),
        (0, 3),
    ]
    group.wait_for(20)


def test_workers_talk(started, capfd):
    op = collective.Op

    def work():
        rank = collective.get_rank()
        collective.communicator_print(f"rank {rank} here")
        return [
            collective.allreduce(np.array([0.1, 0.2, 0.3])[[rank]], op.SUM).tolist(),
            collective.allreduce(np.array([rank, 5], np.int8), op.MAX).tolist(),
            collective.allreduce(np.array([1 << rank]), op.BITWISE_OR).tolist(),
            collective.broadcast("from 2" if rank == 2 else None, 2),
        ]

    group = started(3)
    assert run_workers(group, 3, work) == [[[0.1 + 0.2 + 0.3], [2, 5], [7], "from 2"]] * 3
    group.wait_for(20)
    assert sorted(capfd.readouterr().out.splitlines()) == ["rank 0 here", "rank 1 here", "rank 2 here"]


def test_workers_train(started):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    alone = arboost.train({"nthread": 1}, arboost.DMatrix(X, y), 2).save_raw()

    def work():
        rows = slice(0, 30) if collective.get_rank() == 0 else slice(30, 100)
        return arboost.train({"nthread": 1}, arboost.DMatrix(X[rows], y[rows]), 2).save_raw()

    assert run_workers(started(2), 2, work) == [alone] * 2


def test_init_and_finalize(started):
    def run():
        collective.init(**group.worker_args())
        with pytest.raises(XGBoostError, match="of 2 already: call `finalize` first"):
            collective.init(**group.worker_args())
        with collective.CommunicatorContext():  # changes nothing
            assert collective.get_world_size() == 2
        total = collective.allreduce(np.ones(1), collective.Op.SUM)[0]
        collective.finalize()
        collective.finalize()
        assert not collective.is_distributed()
        return total

    group = started(2)
    assert run_threads([run, run]) == [2.0, 2.0]
    group.wait_for(20)


# ---- what goes wrong ----


def test_an_error_is_told_to_the_others_and_the_tracker(started):
    def work():
        if collective.get_rank() == 1:
            raise ZeroDivisionError("mine")
        collective.broadcast("x", 0)
        return collective.broadcast(None, 1)

    group = started(3)
    found = run_workers(group, 3, work)
    assert sorted(type(error).__name__ for error in found) == ["CommError", "CommError", "ZeroDivisionError"]
    assert all("mine" in str(error) for error in found)
    assert not collective.is_distributed()
    with pytest.raises(XGBoostError, match=r"worker \d gave up: .*mine"):
        group.wait_for(20)


def test_signal_error(started):
    def work():
        if collective.get_rank() == 0:
            collective.signal_error()
            return "signalled"
        return collective.broadcast(None, 0)

    found = run_workers(started(2), 2, work)
    (error,) = [part for part in found if part != "signalled"]
    assert isinstance(error, CommError) and "worker 0 gave up: signal_error was called" in str(error)


def test_too_few_workers_are_told(started):
    group = started(3, timeout=1)
    found = run_workers(group, 2, lambda: "never")
    assert all("3 workers have not come within 1 s" in str(error) for error in found)
    with pytest.raises(XGBoostError, match="3 workers have not come within 1 s"):
        group.wait_for(20)


def test_a_worker_does_not_wait_for_ever(started):
    (error,) = run_workers(started(2), 1, lambda: "never", dmlc_timeout=1)
    assert isinstance(error, CommError) and "gives no rank: timed out. Have all workers come?" in str(error)


def test_one_worker_too_many(started):
    def work():
        if collective.get_rank() == 0:
            (error,) = run_workers(group, 1, lambda: "never")
            assert "refuses this worker: the group of 2 worker(s) is complete" in str(error)
        return collective.broadcast("go on", 0)

    group = started(2)
    assert run_workers(group, 2, work) == ["go on"] * 2


def test_another_version_is_refused(started, monkeypatch):
    monkeypatch.setattr(collective, "__version__", "0.0.7")
    group = started(2)
    (error,) = run_workers(group, 1, lambda: "never")
    assert f"it has version '0.0.7', this one '{tracker.__version__}'" in str(error)
    with pytest.raises(XGBoostError, match=r"a worker is refused: it has version '0\.0\.7'"):
        group.wait_for(20)


@pytest.mark.parametrize("talk", [b"", b"hello\r\n\r\n", b"arbo" + bytes(40)])
def test_strangers_do_not_disturb(started, talk):
    group = started(1)
    args = group.worker_args()
    with socket.create_connection((args["dmlc_tracker_uri"], args["dmlc_tracker_port"])) as stranger:
        stranger.sendall(talk)
        assert run_workers(group, 1, collective.get_world_size) == [1]
        group.wait_for(20)


def test_a_worker_that_disappears(started):
    """Its line to the tracker ends without a word."""

    def work():
        if collective.get_rank() == 1:
            collective._local.session.tracker.close()
            collective._local.session.comm.close()
            collective._local.session = None
        return "done"

    group = started(2)
    assert run_workers(group, 2, work) == ["done"] * 2
    with pytest.raises(XGBoostError, match=r"worker 1 on 127\.0\.0\.1 ended without leaving"):
        group.wait_for(20)


def test_start_and_stop():
    group = RabitTracker(2, HOST)
    with pytest.raises(XGBoostError, match="not started"):
        group.wait_for()
    group.start()
    with pytest.raises(XGBoostError, match="started already"):
        group.start()
    group.free()
    group.free()
    with pytest.raises(XGBoostError, match="the tracker was stopped"):
        group.wait_for()
    start = time.monotonic()
    (error,) = run_workers(group, 1, lambda: "never", dmlc_retry=1)
    assert "cannot be reached" in str(error) and time.monotonic() - start < 10


# ---- addresses that are known ----


def test_workers_that_know_each_other(monkeypatch):
    listeners = [collective.Listener(HOST) for _ in range(3)]
    addresses = [listener.address for listener in listeners]

    def work(rank):
        with collective.connect(rank, addresses, listener=listeners[rank], group="mine"):
            assert collective.get_rank() == rank
            found = collective.allreduce(np.array([1.5]), collective.Op.SUM).tolist()
        assert not collective.is_distributed()
        return found

    assert run_threads([lambda rank=rank: work(rank) for rank in range(3)]) == [[4.5]] * 3


def test_an_error_among_workers_that_know_each_other():
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind((HOST, 0))
        addresses = [probe.getsockname() for probe in (one, other)]

    def work(rank):
        with collective.connect(rank, addresses, timeout=20):
            if rank == 0:
                raise ZeroDivisionError("mine")
            return collective.broadcast(None, 0)

    first, second = run_threads([lambda: work(0), lambda: work(1)])
    assert isinstance(first, ZeroDivisionError)
    assert isinstance(second, CommError) and str(second) == "worker 0 gave up: ZeroDivisionError: mine"
