"""Early stopping on later rows, the learning curve as a picture, and the model cut to its best round."""

import matplotlib

matplotlib.use("Agg")

import arboost as xgb
from arboost.demo import load_bike_sharing

X, y, names = load_bike_sharing()
train = xgb.DMatrix(X[:10000], y[:10000], feature_names=names)
valid = xgb.DMatrix(X[10000:14000], y[10000:14000], feature_names=names)
params = {"objective": "count:poisson", "max_depth": 5, "eta": 0.2, "eval_metric": "rmse"}

scores = {}
stop = xgb.callback.EarlyStopping(rounds=10, save_best=True)  # keeps the rounds up to the best one
model = xgb.train(
    params,
    train,
    500,
    evals=[(train, "train"), (valid, "valid")],
    evals_result=scores,
    callbacks=[stop],
    verbose_eval=False,
)
print(f"{len(scores['valid']['rmse'])} rounds trained, {model.num_boosted_rounds()} kept, rmse {model.best_score:.1f}")
assert model.num_boosted_rounds() == model.best_iteration + 1

axes = xgb.plot_metric(scores)
axes.figure.savefig("curve.png")
