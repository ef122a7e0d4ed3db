"""The order in which nodes are opened, and the limit on leaves."""

from itertools import chain

import numpy as np
import pytest

from arboost.kernels.dtypes import NODE
from arboost.tree.driver import Driver

MANY = 10**6


def make_nodes(gains):
    nodes = np.zeros(len(gains), NODE)
    nodes["gain"] = gains
    return nodes


def ids(*numbers):
    return np.array(numbers, np.int32)


def drain(driver, limit=MANY):
    batches = []
    while len(batch := driver.pop(limit)):
        batches.append(batch.tolist())
    return batches


@pytest.mark.parametrize("best_first", [False, True])
def test_an_empty_queue(best_first):
    driver = Driver(0, best_first)
    assert not len(driver.pop(MANY))
    assert not len(driver.waiting())


def test_depthwise_opens_a_level_at_a_time():
    driver = Driver(0, False)
    nodes = make_nodes([1] * 10)
    driver.push(nodes, ids(1, 2))
    assert driver.pop(MANY).tolist() == [1, 2]
    driver.push(nodes, ids(3, 5, 6))
    assert drain(driver) == [[3, 5, 6]]


def test_depthwise_in_parts_keeps_the_order():
    """Buffers may allow only a few nodes at once: the rest of the level comes before the children."""
    driver = Driver(0, False)
    nodes = make_nodes([1] * 20)
    driver.push(nodes, ids(1, 2, 3))
    assert driver.pop(2).tolist() == [1, 2]
    driver.push(nodes, ids(7, 9))
    assert driver.waiting().tolist() == [9, 7, 3]
    assert driver.pop(2).tolist() == [3]
    driver.push(nodes, ids(11))
    assert drain(driver, 1) == [[7], [9], [11]]


def test_children_without_splits_do_not_end_the_tree():
    driver = Driver(0, False)
    nodes = make_nodes([1] * 5)
    driver.push(nodes, ids(1, 2))
    assert driver.pop(1).tolist() == [1]
    driver.push(nodes, ids())
    assert driver.pop(1).tolist() == [2]
    driver.push(nodes, ids())
    driver.push(nodes, ids(4))
    assert drain(driver) == [[4]]


def test_lossguide_opens_the_largest_gain_and_of_equals_the_lower_node():
    driver = Driver(0, True)
    nodes = make_nodes([0, 3.0, 5.0, 3.0, 9.0])
    driver.push(nodes, ids(3, 1, 2))
    assert driver.waiting().tolist() == [3, 1, 2]
    assert driver.pop(MANY).tolist() == [2]
    driver.push(nodes, ids(4))
    assert drain(driver) == [[4], [1], [3]]


@pytest.mark.parametrize("best_first", [False, True])
@pytest.mark.parametrize("max_leaves", [1, 2, 3, 4, 9])
def test_max_leaves(best_first, max_leaves):
    driver = Driver(max_leaves, best_first)
    driver.push(make_nodes(range(10, 0, -1)), ids(*range(5)))
    opened = list(chain.from_iterable(drain(driver)))
    assert opened == list(range(min(5, max_leaves - 1)))
