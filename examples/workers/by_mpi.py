"""Started by `mpirun -n 2 python by_mpi.py`: every process trains on its share of the rows, all get the same model."""

import arboost as xgb
from arboost import collective
from arboost.demo import load_bike_sharing

with collective.CommunicatorContext():  # the processes that mpirun has started
    rank, n_workers = collective.get_rank(), collective.get_world_size()
    X, y, _ = load_bike_sharing()  # a real program would read its own rows only
    rows = slice(len(X) * rank // n_workers, len(X) * (rank + 1) // n_workers)
    dtrain = xgb.DMatrix(X[rows], y[rows])
    model = xgb.train({"max_depth": 4, "nthread": 1}, dtrain, 3, evals=[(dtrain, "train")])
    if rank == 0:
        model.save_model("model.ubj")
