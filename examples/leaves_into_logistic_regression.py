"""Combination features: which leaf a row falls into, one-hot, as input of a logistic regression.

Each tree becomes a categorical feature whose values are its leaves: combinations of conditions that the trees found.
The regression is cheap to refit every hour while the trees are kept (He et al., 2014, click prediction). Trees and
regression learn from different rows, else the regression trusts leaves that the trees made for just these rows.
"""

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

import arboost as xgb

X, y = make_classification(4000, 20, n_informative=8, n_clusters_per_class=4, flip_y=0.05, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
X_trees, X_linear, y_trees, y_linear = train_test_split(X_train, y_train, test_size=0.5, random_state=0)

trees = xgb.XGBClassifier(n_estimators=40, max_depth=4, learning_rate=0.2).fit(X_trees, y_trees)
leaves = trees.apply(X_linear)  # (rows, trees): the number of the leaf in each tree
assert (leaves == trees.get_booster().predict(xgb.DMatrix(X_linear), pred_leaf=True)).all()

encoder = OneHotEncoder(handle_unknown="ignore").fit(leaves)
combined = LogisticRegression(C=0.05, max_iter=1000).fit(encoder.transform(leaves), y_linear)
plain = LogisticRegression(max_iter=1000).fit(X_linear, y_linear)

probability = combined.predict_proba(encoder.transform(trees.apply(X_test)))[:, 1]
for name, p in {
    "logistic regression": plain.predict_proba(X_test)[:, 1],
    "trees": trees.predict_proba(X_test)[:, 1],
    "leaves into logistic regression": probability,
}.items():
    print(f"{name:32} log loss {log_loss(y_test, p):.3f}  AUC {roc_auc_score(y_test, p):.3f}")
assert log_loss(y_test, probability) < log_loss(y_test, plain.predict_proba(X_test)[:, 1])
