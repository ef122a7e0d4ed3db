"""Labels, base scores and predictions of the classification losses."""

import numpy as np
import pytest

import peer_losses as peer
from arboost.losses.classification import (
    BinaryHinge,
    BinaryLogistic,
    BinaryLogitRaw,
    LogisticRegression,
    Softmax,
    Softprob,
)
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context()


@pytest.mark.parametrize("loss", [LogisticRegression(), BinaryLogistic(), BinaryLogitRaw()])
@pytest.mark.parametrize("bad", [-0.1, 1.1])
def test_labels_outside_the_unit_interval(loss, bad):
    with pytest.raises(XGBoostError, match="label must be in"):
        loss.check_label(np.array([0, bad], np.float32))


@pytest.mark.parametrize("bad", [-1, 3, 0.5])
def test_classes_out_of_range(bad):
    with pytest.raises(XGBoostError, match=r"label must be discrete values in the range of \[0, num_class\)"):
        Softmax(3).check_label(np.array([0, bad, 2], np.float32))


def test_classes_have_one_label_a_row():
    with pytest.raises(XGBoostError, match="multi-target-multi-class"):
        Softprob(3).check_label(np.zeros((4, 2), np.float32))


def test_number_of_classes_is_needed():
    with pytest.raises(XGBoostError, match="num_class should be greater equal to 1"):
        Softprob(0)


@pytest.mark.parametrize("bad", [-0.01, 1.01])
def test_base_score_of_the_logistic_loss(bad):
    with pytest.raises(XGBoostError, match=r"base_score must be in \(0,1\) for the logistic loss"):
        BinaryLogistic().to_margin(np.array([bad]))


def test_constant_labels_have_a_finite_margin():
    for label in (0.0, 1.0):
        score = BinaryLogistic().base_score(ONE, np.full(9, label, np.float32), None)
        assert score[0] == label
        margin = BinaryLogistic().to_margin(score)
        assert margin[0] == pytest.approx(13.8 * (2 * label - 1), abs=0.1)


def test_raw_base_score_is_a_margin():
    np.testing.assert_array_equal(BinaryLogitRaw().to_margin(np.array([2.0])), [2.0])


def test_hinge_predicts_sides():
    margin = np.array([[-1], [0], [0.5]], np.float32)
    np.testing.assert_array_equal(BinaryHinge().transform(margin), [[0], [0], [1]])


def test_softmax_predicts_the_first_of_equal_classes():
    margin = np.array([[0, 0, -1], [1, 2, 2]], np.float32)
    np.testing.assert_array_equal(Softmax(3).transform(margin), [[0], [1]])
    np.testing.assert_allclose(Softmax(3).eval_transform(margin).sum(1), 1, rtol=1e-6)


def test_class_without_rows():
    label = np.array([0, 0, 1, 1, 1], np.float32)
    want = peer.base_score({"objective": "multi:softprob", "num_class": 3}, label)
    np.testing.assert_allclose(Softprob(3).base_score(ONE, label, None), want, rtol=1e-6)
