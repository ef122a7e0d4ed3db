"""The model is the same to the byte for any number of threads, in one piece or batch by batch."""

import hashlib

import arboost as xgb
from arboost.demo import load_bike_sharing

X, y, names = load_bike_sharing()
params = {"max_depth": 6, "subsample": 0.7, "colsample_bynode": 0.5, "seed": 3}


class Batches(xgb.DataIter):
    """The table in pieces of 5,000 rows."""

    def __init__(self):
        self.at = 0
        super().__init__()

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at >= len(X):
            return False
        rows = slice(self.at, self.at + 5000)
        input_data(data=X[rows], label=y[rows])
        self.at += 5000
        return True


def digest(data, threads):
    model = xgb.train(params | {"nthread": threads}, data, 20)
    return hashlib.sha256(model.save_raw()).hexdigest()[:16]


digests = {f"{n} threads": digest(xgb.QuantileDMatrix(X, y), n) for n in (1, 2, 3)}
digests["in batches"] = digest(xgb.QuantileDMatrix(Batches()), 2)
for name, found in digests.items():
    print(f"{name:12} {found}")
assert len(set(digests.values())) == 1
