"""Prediction intervals: three quantiles that never cross, and how often the truth lies between them."""

import numpy as np

import arboost as xgb

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(6000, 1))
y = X[:, 0] + rng.normal(scale=0.2 + 0.3 * X[:, 0])  # the noise grows with x

model = xgb.XGBRegressor(
    objective="reg:quantileerror",
    quantile_alpha=[0.05, 0.5, 0.95],
    quantile_crossing="forbid",
    n_estimators=60,
    max_depth=3,
    learning_rate=0.1,
)
model.fit(X[:4000], y[:4000])
low, middle, high = model.predict(X[4000:]).T

inside = ((low <= y[4000:]) & (y[4000:] <= high)).mean()
narrow, wide = ((high - low)[part].mean() for part in (X[4000:, 0] < 2, X[4000:, 0] > 8))
print(f"{inside:.1%} of unseen rows lie inside; width {narrow:.1f} where x is small, {wide:.1f} where it is large")
assert 0.85 < inside < 0.95 and narrow < wide and (low <= high).all()
