"""Files of ready estimators: what is wrong in one is refused by the name of its field, before anything is changed."""

import json

import numpy as np
import pytest

from arboost.ensemble import BoostedClassifier, BoostedRegressor
from arboost.runtime import memory
from arboost.runtime.errors import ModelFileError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] + RNG.normal(size=200)
TREND = {
    "columns": [0, 2], "mean": [0.0, 0.1], "slope": [1.0, 2.0], "low": [-1.0, -1.0], "high": [1.0, 1.0],
    "intercept": 0.5, "limit": float("inf"),
}  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Of a regressor with a trend, and of a classifier: (estimator, document)."""
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for name, model in (("regressor", BoostedRegressor(quality=1)), ("classifier", BoostedClassifier(quality=1))):
        model.fit(X, Y if name == "regressor" else np.array(["no", "yes"])[(Y > 0).astype(int)])
        model.save_model(folder / "model.json")
        document = json.loads((folder / "model.json").read_text())
        state = json.loads(document["arboost_ensemble"]["state"])
        if name == "regressor":
            state["trends"] = [TREND]
        found[name] = (model, document, state)
    return found


def load(documents, name, change, folder):
    """Load the file with another state."""
    model, document, state = documents[name]
    state = change(json.loads(json.dumps(state)))
    changed = {"arboost_ensemble": {**document["arboost_ensemble"], "state": json.dumps(state)}}
    (folder / "changed.json").write_text(json.dumps(changed))
    loaded = type(model)()
    loaded.load_model(folder / "changed.json")
    return loaded


def with_field(field, value):
    return lambda state: {**state, field: value}


def with_trend(**fields):
    return lambda state: {**state, "trends": [{**TREND, **fields}]}


def with_labels(**fields):
    return lambda state: {**state, "classes": {**state["classes"], **fields}}


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_sound_files_load(documents, name, tmp_path):
    loaded = load(documents, name, lambda state: state, tmp_path)
    assert np.isfinite(loaded.predict(X) if name == "regressor" else loaded.predict_proba(X)).all()


WRONG = {
    "no object": ("regressor", lambda state: [state], r"state: an object"),
    "no estimator": ("regressor", with_field("estimator", None), r"\.estimator"),
    "choices": ("classifier", with_field("choices", []), r"\.choices"),
    "has_names": ("regressor", with_field("has_names", 1), r"\.has_names"),
    "names that are not there": ("regressor", with_field("has_names", True), r"\.has_names: member 0"),
    "features": ("regressor", with_field("n_features_in", 2**63), r"\.n_features_in: member 0 has 3"),
    "features of text": ("regressor", with_field("n_features_in", "3"), r"\.n_features_in"),
    "no trends": ("regressor", with_field("trends", False), r"\.trends"),
    "trends of others": ("regressor", with_field("trends", [None, None]), r"\.trends"),
    "a trend that is none": ("regressor", with_field("trends", [7]), r"\.trends\[0\]: an object"),
    "a trend without a mean": ("regressor", with_field("trends", [{"columns": [0]}]), r"\.trends\[0\]\.mean"),
    "columns outside": ("regressor", with_trend(columns=[0, 3]), r"\.columns"),
    "columns twice": ("regressor", with_trend(columns=[1, 1]), r"\.columns"),
    "a slope too many": ("regressor", with_trend(slope=[1.0, 2.0, 3.0]), r"\.slope: 3 entries for 2"),
    "a slope without end": ("regressor", with_trend(slope=[1.0, float("nan")]), r"\.slope"),
    "low above high": ("regressor", with_trend(low=[2.0, -1.0]), r"\.high"),
    "intercept": ("regressor", with_trend(intercept=float("inf")), r"\.intercept"),
    "limit": ("regressor", with_trend(limit=-1.0), r"\.limit"),
    "residuals": ("regressor", with_field("residuals", [0.1, {}]), r"\.residuals"),
    "residuals out of order": ("regressor", with_field("residuals", [2.0, 1.0]), r"\.residuals"),
    "rows held out": ("regressor", with_field("n_heldout", 1), r"\.n_heldout"),
    "no residuals": ("regressor", with_field("residuals", []), r"\.residuals"),
    "temperature": ("classifier", with_field("temperature", -1.0), r"\.temperature"),
    "temperature of text": ("classifier", with_field("temperature", "x"), r"\.temperature"),
    "no labels": ("classifier", with_field("classes", None), r"classes\.values"),
    "labels twice": ("classifier", with_labels(values=["no", "no"]), r"classes\.values"),
    "labels too many": ("classifier", with_labels(values=["a", "b", "c"]), r"classes\.values: 3 labels of models of 1"),
    "lists for labels": ("classifier", with_labels(values=[["no"], ["yes"]]), r"classes\.values"),
    "labels cut off": ("classifier", with_labels(dtype="<U2"), r"classes\.dtype"),
    "no type": ("classifier", with_labels(dtype=0), r"classes\.dtype"),
    "a type of records": ("classifier", with_labels(dtype="i4,i4"), r"classes\.dtype"),
    "numbers of text": ("classifier", with_labels(dtype="<i8"), r"classes\.dtype"),
    "numbers too large": ("classifier", with_labels(dtype="<i8", values=[2**63, 1]), r"classes\.dtype"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_fields_are_named(documents, case, tmp_path):
    name, change, message = WRONG[case]
    with pytest.raises(ModelFileError, match=message):
        load(documents, name, change, tmp_path)


def test_labels_of_an_absurd_width_take_no_memory(documents, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "limit", 1 << 30)
    with pytest.raises(ValueError, match="labels of type"):
        load(documents, "classifier", with_labels(dtype=f"<U{2**28}"), tmp_path)


def test_members_of_other_outputs(documents, tmp_path):
    """A regressor's file with a model of classes, and a file whose models do not fit together."""
    import arboost

    classes = arboost.train({"objective": "multi:softprob", "num_class": 3}, arboost.DMatrix(X, np.arange(200) % 3), 1)
    member = json.loads(bytes(classes.save_raw("json")))
    model, document, state = documents["regressor"]
    for members, message in (([member], r"\.estimator: a regressor of models of 3"), (None, r"members\[1\]: another")):
        members = members or [document["arboost_ensemble"]["members"][0], member]
        own = json.dumps({**state, "trends": [None] * len(members)})
        changed = {"arboost_ensemble": {**document["arboost_ensemble"], "state": own, "members": members}}
        (tmp_path / "changed.json").write_text(json.dumps(changed))
        with pytest.raises(ModelFileError, match=message):
            model.load_model(tmp_path / "changed.json")
    assert np.isfinite(model.predict(X)).all()  # the estimator is as it was
