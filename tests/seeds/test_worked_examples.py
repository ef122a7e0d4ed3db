"""The worked examples that the project was built from, to the printed digit. Gain has no factor 1/2 here."""

import json

import numpy as np
import pytest

import arboost
from arboost.kernels import scalar
from pages import compiled

leaf_score = compiled(scalar.leaf_score)

# ---- 1. salary regression: squared error, H = number of rows, lambda = 1, eta = 0.3 ----

AGE = [23, 24, 26, 26, 27]
MASTERS = [0, 1, 1, 0, 1]  # yes = 1
SALARY = np.array([50, 70, 80, 65, 85], np.float32)
SALARY_PARAMS = {"max_depth": 2, "lambda": 1, "eta": 0.3, "min_child_weight": 0, "nthread": 1}


def train_salary(columns, n_rounds=1, **params):
    data = arboost.DMatrix(np.array(columns, np.float32).T, SALARY)
    return arboost.train({**SALARY_PARAMS, **params}, data, n_rounds), data


def nodes_of(booster, tree=0):
    """A tree of the JSON dump, every node by its number."""
    found = {}

    def walk(node):
        found[node["nodeid"]] = node
        for child in node.get("children", ()):
            walk(child)

    walk(json.loads(booster.get_dump(with_stats=True, dump_format="json")[tree]))
    return found


def child(nodes, node, side):
    return nodes[node[side]]


def similarity(residuals):
    """The score of a node under squared error, lambda = 1."""
    return leaf_score(-float(sum(residuals)), float(len(residuals)), np.array([1.0, 0.0, 0.0, 0.0]))


def test_salary_starts_at_the_mean():
    booster, data = train_salary([AGE, MASTERS], 1, eta=0.0)
    assert booster.predict(data).tolist() == [70] * 5
    assert float(json.loads(booster.save_raw("json"))["learner"]["learner_model_param"]["base_score"].strip("[]")) == 70


def test_salary_similarities():
    residuals = SALARY - 70
    assert residuals.tolist() == [-20, 0, 10, -5, 15]
    yes = [r for r, m in zip(residuals, MASTERS) if m]
    no = [r for r, m in zip(residuals, MASTERS) if not m]
    assert similarity(residuals) == 0
    assert similarity(yes) == 156.25
    assert round(similarity(no), 2) == 208.33


def test_salary_root_gains():
    booster, _ = train_salary([MASTERS], max_depth=1)
    assert round(nodes_of(booster)[0]["gain"], 2) == 364.58
    # one column for each age that the examples split at: which side a row is on
    for threshold, gain in ((23.5, 280.0), (25, 233.33), (26.5, 157.5)):
        booster, _ = train_salary([[age > threshold for age in AGE]], max_depth=1)
        assert round(nodes_of(booster)[0]["gain"], 2) == gain
    booster, _ = train_salary([AGE], max_depth=1)
    assert round(nodes_of(booster)[0]["gain"], 2) == 280.0  # the best of the three
    assert nodes_of(booster)[0]["split_condition"] == 24  # x < 24 is x < 23.5 on this data


def test_salary_tree():
    booster, _ = train_salary([AGE, MASTERS])
    nodes = nodes_of(booster)
    root = nodes[0]
    assert root["split"] == "f1"
    assert round(root["gain"], 2) == 364.58
    no, yes = child(nodes, root, "yes"), child(nodes, root, "no")  # "yes" of x < threshold is "no master's"
    assert (yes["split"], yes["split_condition"], round(yes["gain"], 2)) == ("f0", 26, 52.08)
    assert (no["split"], no["split_condition"], round(no["gain"], 2)) == ("f0", 24, 4.17)  # 23 | 26


def test_salary_split_that_loses():
    """Under yes, age < 26.5 gains less than nothing: it is not made even where it is the only one."""
    below = [age < 26.5 for age, m in zip(AGE, MASTERS) if m]
    residuals = [float(s) - 70 for s, m in zip(SALARY, MASTERS) if m]
    left = [r for r, b in zip(residuals, below) if b]
    right = [r for r, b in zip(residuals, below) if not b]
    assert similarity(left) + similarity(right) - similarity(residuals) < 0
    data = arboost.DMatrix(np.array(below, np.float32)[:, None], np.array(residuals, np.float32))
    booster = arboost.train({**SALARY_PARAMS, "base_score": 0.0}, data, 1)
    assert len(nodes_of(booster)) == 1


def test_salary_pruned_by_gamma():
    booster, data = train_salary([AGE, MASTERS], gamma=50)
    nodes = nodes_of(booster)
    assert len(nodes) == 5
    no, yes = child(nodes, nodes[0], "yes"), child(nodes, nodes[0], "no")
    assert round(no["leaf"] / 0.3, 2) == -8.33
    assert round(child(nodes, yes, "yes")["leaf"] / 0.3, 2) == 0
    assert round(child(nodes, yes, "no")["leaf"] / 0.3, 2) == 8.33
    prediction = booster.predict(data)
    assert prediction.tolist() == pytest.approx([67.5, 70, 72.5, 67.5, 72.5], rel=1e-6)
    assert (SALARY - prediction).tolist() == pytest.approx([-17.5, 0, 7.5, -2.5, 12.5], abs=1e-4)


# ---- 2. drug dosage: logistic, base_score 0.5, lambda = 0, eta = 0.3 ----

DOSAGE = np.array([[3], [8], [11]], np.float32)
EFFECTIVE = np.array([0, 1, 1], np.float32)
DOSAGE_PARAMS = {
    "objective": "binary:logistic",
    "base_score": 0.5,
    "lambda": 0,
    "eta": 0.3,
    "min_child_weight": 0,
    "max_depth": 1,
    "nthread": 1,
}


def test_dosage_similarities():
    reg = np.zeros(4)
    root = leaf_score(-0.5, 0.75, reg)
    assert root == pytest.approx(1 / 3)
    assert leaf_score(0.5, 0.25, reg) == 1
    assert leaf_score(-1.0, 0.5, reg) == 2
    assert leaf_score(0.0, 0.5, reg) == 0  # dosage < 9.5
    assert leaf_score(0.0, 0.5, reg) + leaf_score(-0.5, 0.25, reg) - root == pytest.approx(2 / 3)


def test_dosage_tree():
    data = arboost.DMatrix(DOSAGE, EFFECTIVE)
    booster = arboost.train(DOSAGE_PARAMS, data, 1)
    nodes = nodes_of(booster)
    assert nodes[0]["split_condition"] == 8  # 3 | 8 11
    assert nodes[0]["gain"] == pytest.approx(1 + 2 - 1 / 3)
    assert nodes[0]["cover"] == 0.75
    assert [round(nodes[i]["leaf"] / 0.3, 5) for i in (1, 2)] == [-2, 2]
    assert booster.predict(data).tolist() == pytest.approx([0.35, 0.65, 0.65], abs=0.005)
    assert booster.predict(data).tolist() == pytest.approx([1 / (1 + np.exp(0.6)), *[1 / (1 + np.exp(-0.6))] * 2])


def test_dosage_split_between_8_and_11():
    booster = arboost.train(DOSAGE_PARAMS, arboost.DMatrix(DOSAGE > 9.5, EFFECTIVE), 1)
    nodes = nodes_of(booster)
    assert nodes[0]["gain"] == pytest.approx(2 / 3)
    assert [round(nodes[i]["leaf"] / 0.3, 5) for i in (1, 2)] == [0, 2]


def test_dosage_needs_light_children():
    booster = arboost.train({**DOSAGE_PARAMS, "min_child_weight": 1}, arboost.DMatrix(DOSAGE, EFFECTIVE), 1)
    assert len(nodes_of(booster)) == 1


# ---- 3. regularisation term ----


@pytest.mark.parametrize("lam", [0.5, 1.0, 4.0])
def test_the_penalty_of_a_tree(lam):
    """Omega = gamma T + lambda/2 sum w**2: for the weights 2, 0.1, -1 it is 3 gamma + lambda/2 (4 + 0.01 + 1).

    The trained leaves are those weights, because they minimise the loss with that penalty.
    """
    weights = np.array([2, 0.1, -1])
    n_rows = 10
    gamma = 0.125
    omega = 3 * gamma + 0.5 * lam * (4 + 0.01 + 1)
    assert gamma * len(weights) + 0.5 * lam * (weights**2).sum() == pytest.approx(omega)
    labels = np.repeat(weights * (n_rows + lam) / n_rows, n_rows).astype(np.float32)
    x = np.repeat(np.arange(3, dtype=np.float32), n_rows)[:, None]
    params = {"lambda": lam, "gamma": gamma, "eta": 1, "base_score": 0.0, "max_depth": 2, "nthread": 1}
    booster = arboost.train(params, arboost.DMatrix(x, labels), 1)
    assert sorted(node["leaf"] for node in nodes_of(booster).values() if "leaf" in node) == pytest.approx([-1, 0.1, 2])

    def objective(w):
        return sum(((labels.reshape(3, -1)[i] - w[i]) ** 2).sum() / 2 for i in range(3)) + 0.5 * lam * (w**2).sum()

    best = objective(weights)
    for i in range(3):
        for step in (-0.01, 0.01):
            assert objective(weights + step * np.eye(3)[i]) > best


# ---- 4. sparsity-aware split ----

NONE = np.nan
VALUES = np.array([1.3, NONE, 1.1, 0.2, NONE, 1.9, 0.5, NONE, 1.5, 1.8], np.float32)[:, None]
CLASSES = np.array([1, 0, 1, 0, 0, 1, 0, 0, 1, 1], np.float32)


def test_the_default_direction_is_learned():
    params = {"objective": "binary:logistic", "max_depth": 1, "min_child_weight": 0, "base_score": 0.5, "nthread": 1}
    data = arboost.DMatrix(VALUES, CLASSES)
    booster = arboost.train(params, data, 1)
    root = nodes_of(booster)[0]
    assert root["missing"] == root["yes"]  # left
    assert root["split_condition"] == pytest.approx(1.1)  # between 0.5 and 1.1
    assert ((booster.predict(data) > 0.5) == CLASSES).all()


def test_the_other_classes_learn_the_other_direction():
    params = {"objective": "binary:logistic", "max_depth": 1, "min_child_weight": 0, "base_score": 0.5, "nthread": 1}
    with_high = np.where(np.isnan(VALUES[:, 0]), 1, CLASSES).astype(np.float32)
    booster = arboost.train(params, arboost.DMatrix(VALUES, with_high), 1)
    root = nodes_of(booster)[0]
    assert root["missing"] == root["no"]
    assert ((booster.predict(arboost.DMatrix(VALUES)) > 0.5) == with_high).all()


def test_each_node_has_its_own_direction():
    """X1 (age ?, male), X2 (15, gender ?), X3 (25, female): a missing age and a missing gender go their own ways."""
    male, female = 0.0, 1.0
    rows = [
        (15, male, 2.0), (15, male, 2.0), (18, male, 2.0), (15, NONE, 2.0), (16, NONE, 2.0),
        (15, female, 0.1), (18, female, 0.1), (16, female, 0.1),
        (25, female, -1.0), (40, male, -1.0), (NONE, male, -1.0), (NONE, female, -1.0), (30, female, -1.0),
    ]  # fmt: skip
    x, y = np.array(rows, np.float32)[:, :2], np.array(rows, np.float32)[:, 2]
    params = {"max_depth": 2, "eta": 1, "lambda": 0, "base_score": 0.0, "nthread": 1}
    booster = arboost.train(params, arboost.DMatrix(x, y, feature_names=["age", "is_female"]), 1)
    nodes = nodes_of(booster)
    root = nodes[0]
    young = child(nodes, root, "yes")
    assert (root["split"], root["missing"]) == ("age", root["no"])
    assert (young["split"], young["missing"]) == ("is_female", young["yes"])
    people = np.array([[NONE, male], [15, NONE], [25, female]], np.float32)
    predicted = booster.predict(arboost.DMatrix(people, feature_names=["age", "is_female"]))
    assert predicted.tolist() == pytest.approx([-1, 2, -1])
