"""A worker of a group of processes: trains many kinds of models on its share, writes what it got, and ends as told.

    python worker_program.py FOLDER ENDING [NAME=VALUE ...]

The arguments after ENDING are those of `collective.CommunicatorContext`. ENDING is what happens in a last training:
"leave" (nothing), or worker 1 should "raise" or "die".
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import arboost
import worker_cases as cases
from arboost import collective
from arboost.runtime.errors import CommError

KINDS = [
    "binary",
    "weighted classes",
    "ndcg",
    "map",
    "weighted quantiles",
    "absolute error",
    "aft",
    "sets",
    "subsample",
    "gradient sample",
    "columns",
    "lossguide",
    "targets",
]


def train_kinds(rows):
    """{kind: digest of the model, scores} of a share."""
    found = {kind: summary(cases.train(*cases.KINDS[kind], rows, n_rounds=3)) for kind in KINDS}
    return found | {"early stopping": summary(stop_early(rows))}


def summary(found):
    return [hashlib.sha256(found[0]).hexdigest(), *found[1:]]


def stop_early(rows):
    """All stop in the same round."""
    matrix, result = cases.matrix_of(cases.BINARY, rows, arboost.QuantileDMatrix), {}
    noise = (np.arange(cases.N_ROWS) * 7919 % 3 == 0).astype(int)
    watched = [(cases.matrix_of({"label": noise}, rows), "valid")]
    params = {**cases.COMMON, "objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}
    options = {"evals": watched, "evals_result": result, "verbose_eval": False, "early_stopping_rounds": 2}
    model = arboost.train(params, matrix, 30, **options)
    return bytes(model.save_raw()), repr((result, model.best_iteration, model.best_score))


def talk():
    """What a script says to the other workers."""
    rank, op = collective.get_rank(), collective.Op
    return [
        collective.allreduce(np.array([[0.1 * (rank + 1), 1e16 * (rank == 0), 1.0]]), op.SUM).tolist(),
        collective.allreduce(np.array([rank, -rank]), op.MIN).tolist(),
        collective.broadcast({"from": rank} if rank == 1 else None, 1),
    ]


def be_out_of_step(rank):
    """Workers that make different calls are told so; MPI itself would mix up their bytes, or hang."""
    try:
        collective.allreduce(np.zeros(2 + rank, int), collective.Op.SUM)
    except CommError as error:
        assert "workers are out of step: worker 0: allreduce_sum of 2 int64, worker 1:" in str(error)
    else:
        raise AssertionError("nobody noticed")


class End(arboost.callback.TrainingCallback):
    """Worker 1 ends in its second round; the others are in the middle of theirs."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 1 and collective.get_rank() == 1:
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("on purpose")
        return False


def main(folder, ending, *arguments):
    with collective.CommunicatorContext(**dict(argument.split("=") for argument in arguments)):
        rank, world_size = collective.get_rank(), collective.get_world_size()
        rows = cases.share_of(world_size, rank)
        found = {"kinds": train_kinds(rows), "talk": talk(), "place": [rank, world_size]}
        cases.train({}, {}, rows, n_rounds=2, verbose_eval=True)  # one worker prints its lines
        (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
        if ending == "leave":
            be_out_of_step(rank)
            return
        try:
            cases.train({}, {}, rows, n_rounds=50, callbacks=[End(ending)])
        except CommError as error:
            told = {"error": str(error), "peer": error.peer, "lost": error.lost}
            (Path(folder) / f"{rank}.told.json").write_text(json.dumps(told))
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
