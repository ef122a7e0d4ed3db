"""Images to five classes: PCA, then `multi:softprob`; the learning API and the estimator give the same model.

Digits 0 to 4, 8 x 8 pixels, from scikit-learn; a small stand-in for staging medical images. Parameters are the same in
both interfaces, so are the models, byte for byte.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

import arboost as xgb

pixels, digit = load_digits(n_class=5, return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(pixels, digit, test_size=0.2, random_state=0, stratify=digit)

pca = PCA(n_components=0.97).fit(X_train)  # as many components as hold 97 % of the variance
print(f"{pixels.shape[1]} pixels become {pca.n_components_} components")
X_train, X_test = (pca.transform(X).astype(np.float32) for X in (X_train, X_test))

params = {"max_depth": 4, "learning_rate": 0.2, "subsample": 0.8, "random_state": 7}

# The learning API
dtrain, dtest = xgb.DMatrix(X_train, y_train), xgb.DMatrix(X_test)
booster = xgb.train(params | {"objective": "multi:softprob", "num_class": 5}, dtrain, num_boost_round=40)
probabilities = booster.predict(dtest)

# The scikit-learn API
classifier = xgb.XGBClassifier(objective="multi:softprob", n_estimators=40, **params)
classifier.fit(X_train, y_train)

assert np.array_equal(probabilities, classifier.predict_proba(X_test))
assert booster.save_raw() == classifier.get_booster().save_raw()
print(f"accuracy of both: {accuracy_score(y_test, probabilities.argmax(axis=1)):.3f}")
