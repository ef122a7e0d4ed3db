"""Combination features: which leaf a row falls into, one-hot, as input of a logistic regression.

Each tree becomes a categorical feature whose values are its leaves: combinations of conditions that the trees found.
The regression is cheap to refit every hour while the trees are kept (He et al., 2014, click prediction). Trees and
regression learn from different rows, else the regression trusts leaves that the trees made for just these rows.
"""

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import arboost as xgb
from arboost.ensemble import LeafEncoder, LeafLogisticRegression

X, y = make_classification(4000, 20, n_informative=8, n_clusters_per_class=4, flip_y=0.05, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

trees = xgb.XGBClassifier(n_estimators=40, max_depth=4, learning_rate=0.2)
combined = LeafLogisticRegression(trees, tree_share=0.5).fit(X_train, y_train)

# The parts: trees that are kept, and a regression that may be fitted anew on later rows.
encoder = combined.encoder_
leaves = encoder.transform(X_test)  # sparse, one column for every leaf of every tree
assert isinstance(encoder, LeafEncoder) and leaves.nnz == 40 * len(X_test)
print(leaves.shape[1], "leaves, for example", encoder.get_feature_names_out()[0])

models = {
    "logistic regression": LogisticRegression(max_iter=1000).fit(X_train, y_train),
    "trees on the same half": encoder.estimator_,
    "leaves into logistic regression": combined,
}
for name, model in models.items():
    p = model.predict_proba(X_test)[:, 1]
    print(f"{name:32} log loss {log_loss(y_test, p):.3f}  AUC {roc_auc_score(y_test, p):.3f}")
losses = [log_loss(y_test, model.predict_proba(X_test)) for model in models.values()]
assert losses[-1] == min(losses)
