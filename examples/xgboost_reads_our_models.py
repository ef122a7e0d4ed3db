"""One model file, two libraries: trained here, read by XGBoost, and the other way round. Needs xgboost."""

import tempfile
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_wine

import arboost

X, y = load_wine(return_X_y=True)
X = X.astype(np.float32)
params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}

with tempfile.TemporaryDirectory() as folder:
    for writer, reader in ((arboost, xgboost), (xgboost, arboost)):
        path = Path(folder) / f"{writer.__name__}.json"
        model = writer.train(params, writer.DMatrix(X, y), 10)
        model.save_model(path)
        read = reader.Booster(model_file=path)
        worst = np.abs(read.predict(reader.DMatrix(X)) - model.predict(writer.DMatrix(X))).max()
        print(f"trained by {writer.__name__}, read by {reader.__name__}: largest difference {worst:.1e}")
        assert worst < 1e-6
