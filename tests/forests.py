"""Random trees, for tests of prediction that need no training, and what symmetric ones ask."""

from typing import NamedTuple

import numpy as np

from arboost.tree.model import NO_PARENT, Tree


def random_tree(rng, n_features, n_splits, max_depth=30):
    """A tree made by splitting random leaves; thresholds are small whole numbers, so that values meet them."""
    left, right, parent, depth = [-1], [-1], [NO_PARENT], [0]
    for _ in range(n_splits):
        leaves = [i for i in range(len(left)) if left[i] < 0 and depth[i] < max_depth]
        if not leaves:
            break
        # mostly the newest leaves: long paths
        i = leaves[-1] if rng.random() < 0.6 else int(rng.choice(leaves))
        left[i], right[i] = len(left), len(left) + 1
        left += [-1, -1]
        right += [-1, -1]
        parent += [i, i]
        depth += [depth[i] + 1] * 2
    n = len(left)
    inner = np.array(left) >= 0
    feature = np.where(inner, rng.integers(0, n_features, n), 0).astype(np.int32)
    threshold = np.where(inner, rng.integers(-2, 4, n), rng.normal(size=n)).astype(np.float32)
    default_left = (inner & (rng.random(n) < 0.5)).astype(np.uint8)
    stats = (np.zeros(n, np.float32) for _ in range(3))
    links = (np.array(x, np.int32) for x in (left, right, parent))
    return Tree(*links, feature, threshold, default_left, *stats, n_features)


class Condition(NamedTuple):
    """What a numerical split asks."""

    feature: int
    threshold: float
    default_left: int


def level_conditions(tree):
    """The condition of every level, if all nodes of a level that are split have the same one; else None."""
    found, level = [], [0]
    while True:
        inner = [i for i in level if tree.left[i] >= 0]
        if not inner:
            return found
        asked = {Condition(*(getattr(tree, name)[i].item() for name in Condition._fields)) for i in inner}
        if len(asked) > 1:
            return None
        found += asked
        level = [child for i in inner for child in (tree.left[i], tree.right[i])]
