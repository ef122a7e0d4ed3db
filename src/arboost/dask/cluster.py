"""`train`: the client's side of a training. It plans, starts a task per worker, watches, and goes on if one is lost.

An attempt is one set of tasks. When a worker is gone, those that are left return what they had after the last finished
round; Dask computes the lost partitions again; the next attempt goes on from there with whoever holds them then.
"""

import asyncio
import concurrent.futures
import os
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import dask
import distributed

from arboost.booster import Booster
from arboost.callback import EvalsLog, TrainingCallback
from arboost.collective import Config
from arboost.config import get_config
from arboost.dask import channel
from arboost.dask.data import DaskDMatrix, DaskQuantileDMatrix, find_client, run
from arboost.dask.parts import Piece, cut_part
from arboost.dask.plan import Shares, choose_owners, rank_workers, share_out
from arboost.dask.session import Job, State, train_share
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.errors import XGBoostError, type_name
from arboost.runtime.sockets import TIMEOUT

_POLL = 0.5  # seconds between two looks at which workers are there
_SOON = 0.05  # seconds between two looks at whether lost partitions are back
_GRACE = 10.0  # seconds for a worker to tell that it has stopped, after it was told to
_NO_CLUSTER = (OSError, RuntimeError, AttributeError, distributed.client.ClosedClientError)  # calls without one raise
_RESTARTS = 3  # in a row without a round finished in between


class WorkerLostError(XGBoostError):
    """Training on a cluster cannot go on; `booster` and `history` are of the rounds finished so far, or None."""

    def __init__(self, message: str, booster: Booster | None = None, history: EvalsLog | None = None) -> None:
        super().__init__(message)
        self.booster, self.history = booster, history


@positional_with_warning
def train(
    client: distributed.Client | None,
    params: dict[str, Any],
    dtrain: DaskDMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DaskDMatrix, str]] | None = None,
    obj: Callable | None = None,
    early_stopping_rounds: int | None = None,
    xgb_model: Booster | str | os.PathLike | bytearray | None = None,
    verbose_eval: bool | int | None = True,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: Callable | None = None,
    coll_cfg: Config | None = None,
) -> Any:
    """Train a model on the workers that hold the data: the very model that one machine would train.

    A lost worker does not end the training: it goes on from the last finished round, with a warning. With an
    asynchronous client the result is to be awaited.

    Parameters
    ----------
    client :
        The client; None for Dask's current one.
    params, num_boost_round, obj, early_stopping_rounds, xgb_model, verbose_eval, callbacks, custom_metric :
        As for `arboost.train`. Callbacks run on every worker, on copies; scores are printed by the client. A custom
        objective sees the rows of one worker. A custom metric does too; its values are averaged by rows.
    dtrain :
        Data to train on.
    evals :
        (data, name) pairs to evaluate after every round.
    coll_cfg :
        `timeout`: seconds without a sign of life after which a worker counts as stuck (600). `retry`: how often in a
        row training is started anew without finishing a round (3). There is no tracker, its address is not used.

    Returns
    -------
    dict
        ``{"booster": Booster, "history": {name: {metric: [score of every round]}}}``

    Raises
    ------
    WorkerLostError
        A worker does not answer, or training cannot go on without one; it has the model so far.
    """
    client = find_client(client)
    _check_config()
    more = {
        "obj": obj, "early_stopping_rounds": early_stopping_rounds, "xgb_model": xgb_model,
        "verbose_eval": verbose_eval, "callbacks": callbacks, "custom_metric": custom_metric,
    }  # fmt: skip
    return run(client, train_async, client, params, dtrain, num_boost_round, evals, coll_cfg, get_config(), **more)


async def train_async(
    client: distributed.Client,
    params: dict[str, Any],
    dtrain: DaskDMatrix,
    num_boost_round: int,
    evals: Sequence[tuple[DaskDMatrix, str]] | None,
    coll_cfg: Config | None,
    config: dict[str, Any],
    *,
    xgb_model: Any,
    **options: Any,
) -> dict[str, Any]:
    """`train` in the client's event loop."""
    outcome = await run_training(
        client, params, dtrain, num_boost_round, evals, coll_cfg, config, xgb_model=xgb_model, **options
    )
    return {"booster": outcome.booster, "history": outcome.history}


@dataclass
class Outcome:
    """A finished training."""

    booster: Booster
    history: EvalsLog
    restarts: int = 0
    costs: list[dict[str, dict[str, float]]] = field(default_factory=list)  # of the last attempt's workers, by rank


async def run_training(
    client: distributed.Client,
    params: dict[str, Any],
    dtrain: DaskDMatrix,
    num_boost_round: int,
    evals: Sequence[tuple[DaskDMatrix, str]] | None,
    coll_cfg: Config | None,
    config: dict[str, Any],
    *,
    xgb_model: Any,
    **options: Any,
) -> Outcome:
    """Check, gather the matrices, and make attempts until one comes to the end."""
    matrices, watched = _all_matrices(dtrain, evals)
    for matrix in matrices:
        await matrix
    coll_cfg = coll_cfg or Config()
    timeout = TIMEOUT if coll_cfg.timeout is None else float(coll_cfg.timeout)
    job = Job(
        params=dict(params),
        matrices=[matrix.matrix_options() for matrix in matrices],
        refs=[_ref_of(matrix, matrices) for matrix in matrices],
        evals=watched,
        num_boost_round=whole_number("num_boost_round", num_boost_round),
        xgb_model=xgb_model if xgb_model is None or isinstance(xgb_model, Booster) else Booster(model_file=xgb_model),
        config={name: value for name, value in config.items() if name != "nthread"},
        timeout=timeout,
        **options,
    )
    retries = _RESTARTS if coll_cfg.retry is None else int(coll_cfg.retry)
    return await _Driver(client, matrices, cloudpickle.dumps(job), timeout, retries).run()


def _all_matrices(dtrain: Any, evals: Any) -> tuple[list[DaskDMatrix], list[tuple[int, str]]]:
    """Every matrix once, the training data first, and (number, name) of those to watch."""
    if not isinstance(dtrain, DaskDMatrix):
        raise TypeError(f"Expecting a DaskDMatrix of arboost, got: {type_name(dtrain)}")
    matrices, watched = [dtrain], []
    for pair in evals or ():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], DaskDMatrix):
            raise TypeError(f"Invalid type for the `evals`: a list of (DaskDMatrix, name) pairs, got {pair!r} in it.")
        if all(pair[0] is not matrix for matrix in matrices):
            matrices.append(pair[0])
        number = next(i for i, matrix in enumerate(matrices) if matrix is pair[0])
        watched.append((number, str(pair[1])))
    return matrices, watched


def _ref_of(matrix: DaskDMatrix, matrices: list[DaskDMatrix]) -> int | None:
    """The number of the matrix whose bins a matrix takes."""
    ref = matrix.ref if isinstance(matrix, DaskQuantileDMatrix) else None
    if ref is None:
        return None
    if ref is not matrices[0] or matrix is ref:
        raise ValueError("Training dataset should be used as a reference when constructing a `DaskQuantileDMatrix`.")
    return 0


def _check_config() -> None:
    """Dask's configuration may have XGBoost's keys; a tracker's address is of no use here."""
    for place in ("xgboost", "arboost"):
        for name in dask.config.get(place, default=None) or {}:
            if name.replace("-", "_") != "scheduler_address":
                raise ValueError(f"Unknown configuration: {place}.{name}")


# ---- attempts ----


class _Driver:
    """Makes attempts until one comes to the end."""

    def __init__(
        self, client: distributed.Client, matrices: list[DaskDMatrix], payload: bytes, timeout: float, retries: int
    ):
        self._client, self._matrices, self._payload = client, matrices, payload
        self._timeout, self._retries = timeout, retries
        self._state: bytes | None = None  # the State to go on from
        self._epoch = 0
        self._restarts = self._in_vain = 0

    async def run(self) -> Outcome:
        while True:
            attempt = _Attempt(self._client, self._matrices, self._timeout)
            try:
                await attempt.start(self._payload, self._state)
                await attempt.watch()
            except WorkerLostError as error:
                raise self._lost_error(str(error)) from error
            except BaseException as error:
                await attempt.stop("the client has stopped the training")
                if isinstance(error, OSError) or self._client.status != "running":
                    raise self._lost_error("The client has lost the cluster.") from error
                raise
            found = attempt.result()
            if found is not None:
                return Outcome(found["booster"], found["history"], self._restarts, attempt.costs())
            self._take_state(attempt)
            if attempt.stuck:
                raise self._lost_error(f"{_named(attempt.stuck)} does not answer for more than {self._timeout:g} s.")
            self._count(attempt)

    def _take_state(self, attempt: "_Attempt") -> None:
        """The state of the worker that has come farthest: all have the same rounds, some one more."""
        found = max(attempt.unfinished(), key=lambda result: result["epoch"], default=None)
        self._in_vain += 1
        if found is not None and found["state"] is not None and found["epoch"] > self._epoch:
            self._state, self._epoch, self._in_vain = found["state"], found["epoch"], 0

    def _count(self, attempt: "_Attempt") -> None:
        self._restarts += 1
        who = f"{_named(attempt.gone)} was lost" if attempt.gone else f"workers lost each other ({attempt.reason()})"
        if self._in_vain > self._retries:
            raise self._lost_error(f"{who}; {self._in_vain} attempts in a row have not finished a round.")
        warnings.warn(
            f"{who} in round {self._epoch}; training goes on from there (restart {self._restarts}).",
            UserWarning,
            stacklevel=2,
        )

    def _lost_error(self, why: str) -> WorkerLostError:
        """The error, with the rounds that were finished before."""
        if self._state is None:
            return WorkerLostError(f"{why} No finished round has come back.")
        state: State = cloudpickle.loads(self._state)
        message = f"{why} The model of the {self._epoch} rounds before is in `.booster` of this error."
        return WorkerLostError(message, state.booster.reset(), state.history)


def _named(addresses: Sequence[str]) -> str:
    return ("worker " if len(addresses) == 1 else "workers ") + ", ".join(addresses)


class _Attempt:
    """One set of tasks, and what became of them.

    Attributes
    ----------
    gone, stuck
        Addresses of workers that left the cluster, and of those that are there and do not answer.
    """

    def __init__(self, client: distributed.Client, matrices: list[DaskDMatrix], timeout: float):
        self._client, self._matrices, self._timeout = client, matrices, timeout
        self._session = uuid.uuid4().hex
        self._addresses: list[str] = []
        self._futures: list[distributed.Future] = []
        self._results: dict[int, dict[str, Any]] = {}
        self.gone: list[str] = []
        self.stuck: list[str] = []

    # ---- start ----

    async def start(self, payload: bytes, state: bytes | None) -> None:
        """Plan, and give every worker its task."""
        plans = [await self._plan(matrix) for matrix in self._matrices]
        addresses = self._addresses = rank_workers([shares for shares, _ in plans], plans[0][1])
        await self._open_doors()
        common = self._client.map(_same, [payload, state], pure=False)
        for rank, address in enumerate(addresses):
            pieces = [shares.get(address, []) for shares, _ in plans]
            parts = [
                [self._future_of(matrix, piece, owners[piece.part] != address) for piece in own]
                for matrix, (_, owners), own in zip(self._matrices, plans, pieces, strict=True)
            ]
            settled = [
                [_settle(piece, owners[piece.part] != address) for piece in own]
                for (_, owners), own in zip(plans, pieces, strict=True)
            ]
            task = self._client.submit(
                train_share, *common, rank, addresses, self._session, parts, settled,
                key=f"arboost-train-{self._session}-{rank}", workers=[address], allow_other_workers=False, pure=False,
            )  # fmt: skip
            self._futures.append(task)

    async def _plan(self, matrix: DaskDMatrix) -> tuple[Shares, list[str]]:
        """Which worker has which rows of a matrix, and which holds which partition."""
        keys = [part.key for part in matrix.parts]
        deadline = time.monotonic() + self._timeout
        while True:
            holders = await self._client.scheduler.who_has(keys=keys)
            absent = [i for i, key in enumerate(keys) if not holders.get(key)]
            if not absent:
                owners = choose_owners([fact.n_rows for fact in matrix.facts], [holders[key] for key in keys])
                return share_out(matrix.facts, owners), owners
            hopeless = await self._client.run_on_scheduler(_find_hopeless, [keys[i] for i in absent])
            if hopeless:
                part = matrix.parts[keys.index(hopeless[0])]
                if part.status == "error":
                    await part  # raises why it cannot be computed
                raise WorkerLostError(
                    f"Partition {keys.index(hopeless[0])} is lost and cannot be computed again: data that was "
                    "scattered has no recipe, and nothing has after a restart of the cluster. Load it by a function, "
                    "or from files; make the DaskDMatrix anew."
                )
            if time.monotonic() > deadline:
                raise WorkerLostError(f"Partition {absent[0]} was lost and is not back after {self._timeout:g} s.")
            await asyncio.sleep(_SOON)

    def _future_of(self, matrix: DaskDMatrix, piece: Piece, is_moved: bool) -> distributed.Future:
        """The partition of a piece; of one that another worker holds, only its rows."""
        part = matrix.parts[piece.part]
        return self._client.submit(cut_part, part, piece.start, piece.stop, pure=False) if is_moved else part

    async def _open_doors(self) -> None:
        """Have the workers take connections, and make sure that they are of one kind."""
        call = self._client.run(channel.open_door, workers=self._addresses, on_error="return")
        try:
            found = await asyncio.wait_for(call, self._timeout)
        except TimeoutError:
            raise WorkerLostError(f"One of {_named(self._addresses)} does not answer.") from None
        for address, answer in found.items():
            if isinstance(answer, ImportError | AttributeError):
                raise XGBoostError(f"Worker {address} cannot load this version of arboost: {answer!r}")
        answers = {address: answer for address, answer in found.items() if isinstance(answer, dict)}
        kinds = {tuple(answer.items()) for answer in answers.values()}
        if len(kinds) > 1:
            raise XGBoostError(f"The workers differ, and with them their results could: {sorted(kinds)}")

    # ---- watch ----

    async def watch(self) -> None:
        """Until every task has ended, or cannot any more."""
        waiting = {rank: asyncio.ensure_future(_result_of(future)) for rank, future in enumerate(self._futures)}
        deadline: float | None = None
        try:
            while waiting:
                await asyncio.wait(waiting.values(), timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
                for rank in [rank for rank, task in waiting.items() if task.done()]:
                    self._results[rank] = waiting.pop(rank).result()
                there = await self._client.scheduler.ncores(workers=None)
                for rank in [rank for rank in waiting if self._addresses[rank] not in there]:
                    self.gone.append(self._addresses[rank])
                    waiting.pop(rank).cancel()
                if deadline is None and (self.gone or self.unfinished()):
                    deadline = time.monotonic() + self._timeout  # for one that is busy between two calls
                    self._tell(waiting, "another worker was lost or has failed")
                if any("error" in result for result in self._results.values()):
                    return
                if deadline is not None and time.monotonic() > deadline:
                    self.stuck = [self._addresses[rank] for rank in waiting]
                    return
        finally:
            for task in waiting.values():
                task.cancel()
            await self._cancel()

    def _tell(self, ranks: Any, reason: str) -> None:
        """Have workers end their part; one that is stuck is not waited for."""
        for rank in ranks:
            call = self._client.run(
                channel.stop_session, self._session, reason, workers=[self._addresses[rank]], on_error="ignore"
            )
            _keep(asyncio.ensure_future(_quietly(call)))

    async def stop(self, reason: str) -> None:
        """End all that still runs; workers whose tasks are cancelled notice that by themselves too."""
        self._tell(range(len(self._futures)), reason)
        await self._cancel()

    async def _cancel(self) -> None:
        """Take the tasks back, if there is still a cluster."""
        with suppress(*_NO_CLUSTER):
            await self._client.cancel(self._futures, asynchronous=True, force=True)

    # ---- what became of it ----

    def result(self) -> dict[str, Any] | None:
        """The model and the history, if training came to its end; raises the error of a worker that has failed."""
        for result in self._results.values():
            if "error" in result:
                raise result["error"]
        return next((result for result in self._results.values() if "booster" in result), None)

    def unfinished(self) -> list[dict[str, Any]]:
        """What workers have returned that could not go on."""
        return [result for result in self._results.values() if not result["done"]]

    def reason(self) -> str:
        """Why a worker could not go on."""
        return "; ".join(dict.fromkeys(result["reason"] for result in self.unfinished()))

    def costs(self) -> list[dict[str, dict[str, float]]]:
        """What it has cost each worker that came to the end: time, bytes and calls of "matrices" and of "rounds"."""
        return [result["costs"] for _, result in sorted(self._results.items()) if result["done"]]


def _find_hopeless(keys: list[str], dask_scheduler: Any = None) -> list[str]:
    """Those of the keys that Dask does not know how to compute, or has failed to."""
    tasks = {key: dask_scheduler.tasks.get(key) for key in keys}
    return [key for key, task in tasks.items() if task is None or task.state in ("erred", "forgotten")]


def _same(value: Any) -> Any:
    """A value as the result of a task: Dask can make it again, unlike scattered data."""
    return value


def _settle(piece: Piece, is_moved: bool) -> Piece:
    """A piece of the rows that were cut out for another worker: all of them."""
    return piece._replace(start=0, stop=piece.stop - piece.start) if is_moved else piece


async def _result_of(future: distributed.Future) -> dict[str, Any]:
    """What a task returned, or its error."""
    nothing: dict[str, Any] = {"done": False, "state": None, "epoch": 0, "lost": True}
    try:
        found: dict[str, Any] = await future
        return found
    except (distributed.KilledWorker, concurrent.futures.CancelledError) as error:
        return {**nothing, "reason": str(error)}
    except Exception as error:
        return {**nothing, "reason": str(error), "error": error}


_calls: set[asyncio.Future] = set()  # the event loop itself keeps no task alive


def _keep(call: asyncio.Future) -> None:
    _calls.add(call)
    call.add_done_callback(_calls.discard)


async def _quietly(call: Coroutine) -> None:
    """A call to a worker that may be gone or stuck."""
    with suppress(*_NO_CLUSTER, asyncio.TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(call, _GRACE)
