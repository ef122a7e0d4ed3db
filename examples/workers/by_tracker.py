"""XGBoost's own way: a tracker tells the processes of a group where the others are."""

import multiprocessing

import arboost as xgb
from arboost import collective
from arboost.demo import load_bike_sharing
from arboost.tracker import RabitTracker


def work(task, args, n_workers):
    with collective.CommunicatorContext(dmlc_task_id=str(task), **args):
        rank = collective.get_rank()
        X, y, _ = load_bike_sharing()  # a real program would read its own rows only
        rows = slice(len(X) * rank // n_workers, len(X) * (rank + 1) // n_workers)
        dtrain = xgb.DMatrix(X[rows], y[rows])
        xgb.train({"max_depth": 4, "nthread": 1}, dtrain, 3, evals=[(dtrain, "train")])


if __name__ == "__main__":
    tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1", sortby="task", timeout=120)
    tracker.start()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(i, tracker.worker_args(), 2)) for i in range(2)]
    for worker in workers:
        worker.start()
    tracker.wait_for()  # raises if a worker fails
