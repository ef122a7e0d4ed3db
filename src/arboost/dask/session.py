"""What a worker does in a training: it joins the others, makes its share of the matrices, and boosts.

It remembers the state after every finished round. When another worker is lost it returns that state, so that the client
can have the training taken up again; nothing is written to files.
"""

import copy
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import cloudpickle
import distributed

from arboost import collective
from arboost.booster import Booster
from arboost.callback import CallbackContainer, EvalsLog, EvaluationMonitor, TrainingCallback
from arboost.config import config_context
from arboost.dask import channel
from arboost.dask.parts import Columns, Part, Piece, PieceIter, runs_of
from arboost.matrix.categories import Categories
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.runtime import settings
from arboost.runtime.comm import Comm, LocalComm, current, using
from arboost.runtime.errors import CommError, WorkerError
from arboost.runtime.links import Traffic
from arboost.runtime.sockets import SocketComm
from arboost.training import all_callbacks, run_rounds, verbosity_of

_N_BEARERS = 2  # workers that return the model: one of them may be lost before the client has it


@dataclass
class Job:
    """A training, as the client sends it to every worker."""

    params: dict[str, Any]
    matrices: list[dict[str, Any]]  # `DaskDMatrix.matrix_options`; the first is the training data
    refs: list[int | None]  # for each, the matrix whose bins it takes
    evals: list[tuple[int, str]]  # (number of the matrix, name)
    num_boost_round: int
    obj: Callable | None
    custom_metric: Callable | None
    early_stopping_rounds: int | None
    verbose_eval: bool | int | None
    xgb_model: Booster | None
    callbacks: Sequence[TrainingCallback] | None
    config: dict[str, Any]
    timeout: float


@dataclass
class State:
    """A training after a finished round; `epoch` is the round that comes next."""

    epoch: int
    booster: Booster
    history: EvalsLog
    order: list[tuple[str, str]]
    callbacks: list[TrainingCallback]


class CommunicatorContext(collective.CommunicatorContext):
    """The communicator of a Dask task for the length of a `with` block, known to a tracker by its worker.

    `train` needs none. It is for tasks of your own that join a `RabitTracker`, as with XGBoost's class of this name.
    """

    def __init__(self, **args: Any) -> None:
        super().__init__(**args)
        worker = distributed.get_worker()
        self.args["DMLC_TASK_ID"] = f"[xgboost.dask-{worker.name}]:{worker.address}"


# ---- the task ----


def train_share(
    payload: bytes,
    state: bytes | None,
    rank: int,
    addresses: list[str],
    session: str,
    parts: list[list[Part]],
    pieces: list[list[Piece]],
) -> dict[str, Any]:
    """The task of one worker.

    Parameters
    ----------
    payload
        The pickled Job.
    state
        The pickled State to go on from; None: from the beginning.
    rank, addresses, session
        This worker's number, the Dask addresses of all, and the name that all know this attempt by.
    parts, pieces
        For every matrix of the job, this worker's partitions and the rows of them.

    Returns
    -------
    dict
        "done" is whether training came to its end. If so, "booster" and "history" are there on the first workers; if
        not, "state" is what to go on from (None: the beginning), "reason" why and "lost" whether a worker was.
    """
    worker = distributed.get_worker()
    distributed.secede()  # others' tasks are not kept waiting, a second training's or those of lost partitions
    job: Job = cloudpickle.loads(payload)
    own = _Training(job, None if state is None else cloudpickle.loads(state), _is_wanted(worker))
    try:
        with _joined(worker, session, rank, addresses, job.timeout, own.is_wanted) as comm:
            booster, history = own.run(parts, pieces, worker.state.nthreads)
            _compare(comm, booster)
            found = {"booster": booster, "history": history} if rank < _N_BEARERS else {}
            return {"done": True, "costs": own.costs, **found}
    except CommError as error:
        return {"done": False, "state": own.saved(), "epoch": own.epoch, "reason": str(error), "lost": error.lost}
    finally:
        channel.leave(worker, session)


def _is_wanted(worker: Any) -> Callable[[], bool]:
    """Whether the client still wants this task: one that is gone, or has given up, does not."""
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    return is_wanted


@contextmanager
def _joined(
    worker: Any, session: str, rank: int, addresses: list[str], timeout: float, is_wanted: Callable[[], bool]
) -> Iterator[Comm]:
    """The group of workers for the length of a block."""
    if len(addresses) == 1:
        alone = LocalComm()
        with using(alone):
            yield alone
        return
    sockets = channel.open_sockets(worker, session, rank, addresses, timeout, is_wanted)
    comm = SocketComm(rank, len(addresses), sockets, timeout)
    try:
        channel.on_stop(worker, session, comm.abort)
        with using(comm):
            yield comm
    finally:
        comm.close()


def _costs(before: dict[str, float]) -> dict[str, float]:
    """Seconds that have passed, and what this worker has sent in them, since `before`; {}: since the beginning."""
    comm = current()
    traffic = asdict(comm.traffic) if isinstance(comm, SocketComm) else asdict(Traffic())
    now = {"elapsed": time.perf_counter(), **traffic}
    return {name: value - before.get(name, 0) for name, value in now.items()}


def _compare(comm: Comm, booster: Booster) -> None:
    """Make sure that all workers have trained the same model: processors that round differently would not."""
    try:
        digests = comm.allgather(hashlib.sha256(booster.save_raw()).digest())
    except CommError:
        return  # a worker was lost after the last round: the others have the model
    if len(set(digests)) > 1:
        raise WorkerError("The workers have trained different models: their processors or libraries differ.")


# ---- the training ----


class _Training:
    """A worker's part, with what to go on from if another worker is lost."""

    def __init__(self, job: Job, state: State | None, is_wanted: Callable[[], bool]):
        self.is_wanted = is_wanted
        self.costs: dict[str, dict[str, float]] = {}  # of making the matrices, and of the rounds
        self._job, self._start = job, state
        self._container: _Container | None = None

    @property
    def epoch(self) -> int:
        """The round that would come next."""
        container = self._container
        if container is not None and container.snapshot is not None:
            return container.snapshot.epoch
        return 0 if self._start is None else self._start.epoch

    def saved(self) -> bytes | None:
        """The pickled state after the last finished round; None: there is none, or a callback cannot be taken along."""
        container = self._container
        if container is None or container.snapshot is None:
            return None if self._start is None else cloudpickle.dumps(self._start)
        state = container.state()
        try:
            return None if state is None else cloudpickle.dumps(state)
        except Exception as error:  # whatever a user's callback raises
            settings.warn(f"A callback cannot be pickled, so training begins anew: {error!r}")
            return None

    def run(self, parts: list[list[Part]], pieces: list[list[Piece]], n_threads: int) -> tuple[Booster, EvalsLog]:
        """Train to the end."""
        job, start = self._job, self._start
        n_threads = job.params.get("nthread") or job.params.get("n_jobs") or n_threads
        params = {**job.params, "nthread": n_threads}
        params.pop("n_jobs", None)
        with config_context(**job.config), verbosity_of(params):
            began = _costs({})
            matrices = _make_matrices(job, parts, pieces, n_threads)
            self.costs["matrices"] = _costs(began)
            began = _costs({})
            evals = [(matrices[number], name) for number, name in job.evals]
            container = self._container = self._make_container(start)
            if start is None:
                booster = Booster(params, [matrices[0], *(data for data, _ in evals)], model_file=job.xgb_model)
                booster = container.before_training(booster)
            else:
                booster = start.booster
                booster.set_param({"nthread": n_threads})
            first = 0 if start is None else start.epoch
            run_rounds(booster, matrices[0], job.num_boost_round, evals, job.obj, container, first)
            booster = container.after_training(booster)
            self.costs["rounds"] = _costs(began)
        booster.reset()
        booster.set_param({"nthread": job.params.get("nthread") or job.params.get("n_jobs") or 0})
        return booster, container.history

    def _make_container(self, start: State | None) -> "_Container":
        job = self._job
        callbacks = list(job.callbacks or ()) if start is None else start.callbacks
        if start is None and job.verbose_eval:
            period = 1 if job.verbose_eval is True else job.verbose_eval
            callbacks.append(EvaluationMonitor(period=period, logger=_print_at_client))
        if start is None:
            callbacks = all_callbacks(callbacks, job.num_boost_round, None, False, job.early_stopping_rounds, None)
        container = _Container(callbacks, job.custom_metric, callable(job.obj), self.is_wanted, job.params)
        if start is not None:
            container.history, container.order = start.history, start.order
        return container


def _print_at_client(line: str) -> None:
    """Scores are printed where the user is, in the client's process."""
    if settings.current().verbosity > 0:
        message = {"args": (line,), "sep": "", "end": "", "flush": True}
        distributed.get_worker().log_event("print", message)


@dataclass
class _Snapshot:
    """What is needed to come back to a state; trees and scores are only ever appended."""

    epoch: int
    booster: Booster
    n_scores: dict[tuple[str, str], int]
    callbacks: list[TrainingCallback] | None  # None: they cannot be copied


class _Container(CallbackContainer):
    """Callbacks that can be taken up again by other workers."""

    def __init__(
        self,
        callbacks: Sequence[TrainingCallback],
        metric: Callable | None,
        output_margin: bool,
        is_wanted: Callable[[], bool],
        params: dict[str, Any],
    ):
        super().__init__(callbacks, metric, output_margin)
        self._is_wanted = is_wanted
        self._is_update = params.get("process_type") == "update"  # its rounds change trees: begun anew
        self.snapshot: _Snapshot | None = None

    def before_iteration(self, model: Any, epoch: int, dtrain: Any, evals: list[tuple[Any, str]] | None) -> bool:
        if not self._is_wanted():
            raise WorkerError("the client does not want this training any more")
        if not self._is_update:
            self.snapshot = self._take_snapshot(model, epoch)
        return super().before_iteration(model, epoch, dtrain, evals)

    def _take_snapshot(self, model: Booster, epoch: int) -> _Snapshot:
        try:
            callbacks = copy.deepcopy(self.callbacks)
        except Exception:  # whatever a user's object raises
            callbacks = None
        n_scores = {(data, metric): len(self.history[data][metric]) for data, metric in self.order}
        return _Snapshot(epoch, model.copy(), n_scores, callbacks)

    def state(self) -> State | None:
        """The state after the last finished round."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.epoch == 0 or snapshot.callbacks is None:
            return None
        history: EvalsLog = {}
        for (data, metric), n in snapshot.n_scores.items():
            history.setdefault(data, {})[metric] = self.history[data][metric][:n]
        return State(snapshot.epoch, snapshot.booster, history, list(snapshot.n_scores), snapshot.callbacks)


# ---- matrices ----


def _make_matrices(job: Job, parts: list[list[Part]], pieces: list[list[Piece]], n_threads: int) -> list[DMatrix]:
    """This worker's share of every matrix."""
    known = None
    if job.xgb_model is not None and not job.xgb_model.get_categories().empty():
        known = job.xgb_model.get_categories()
    made: list[DMatrix] = []
    for options, ref, own_parts, own_pieces in zip(job.matrices, job.refs, parts, pieces, strict=True):
        more = {} if ref is None else {"ref": made[ref]}
        made.append(make_matrix(own_parts, own_pieces, n_threads, known, more, **options))
    return made


def make_matrix(
    parts: Sequence[Part],
    pieces: Sequence[Piece],
    n_threads: int,
    known: Categories | None,
    more: dict[str, Any],
    *,
    is_quantile: bool,
    blank: Any,
    columns: Columns,
    feature_names: Sequence[str] | None,
    feature_types: Sequence[str] | None,
    feature_weights: Any,
    options: dict[str, Any],
) -> DMatrix:
    """A worker's share of a matrix, partition by partition; `known`: categories that the data is to have."""
    kind = QuantileDMatrix if is_quantile else DMatrix
    options = {**options, **more, "nthread": n_threads}
    constant = {
        "feature_names": feature_names,
        "feature_types": columns.types if feature_types is None else feature_types,
        "feature_weights": feature_weights,
    }
    if not pieces:
        parts, pieces = [{"data": blank}], [Piece(0, 0, 0, 0)]
    matrix = kind(PieceIter(parts, pieces, constant), feature_types=known or columns.categories, **options)
    matrix.info.runs = runs_of(pieces)
    if matrix.raw is not None:
        matrix.raw.is_at_hand = True
    return matrix
