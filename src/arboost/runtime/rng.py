"""Counter-based random numbers: a hash of (seed, what for, where), never a stream.

The same draw comes out whichever thread, page or worker asks, and asking changes nothing for others.
"""

import numpy as np

ROWS, TREE_COLUMNS, LEVEL_COLUMNS, NODE_COLUMNS, FOLDS, DROPS, WEIGHTS, SPLITS, PERMUTATIONS, SIGNS = range(
    10
)  # what for

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN, _M1, _M2 = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser, element-wise: the twin of kernels.scalar.mix."""
    with np.errstate(over="ignore"):
        x = x + _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * _M1
        x = (x ^ (x >> np.uint64(27))) * _M2
        return x ^ (x >> np.uint64(31))


def make_key(seed: int, *where: int) -> int:
    """One 64-bit key from a seed and a path of small integers (round, tree, node, ...)."""
    key = seed & _MASK
    for part in where:
        key = _mix_int(key ^ _mix_int(part & _MASK))
    return key


def make_keys(key: int, parts: np.ndarray) -> np.ndarray:
    """make_key(seed, *where, part) for many parts at once, `key` being make_key(seed, *where): uint64."""
    return mix(np.uint64(key) ^ mix(parts.astype(np.uint64)))


def _mix_int(x: int) -> int:
    """`mix` of one Python integer, without the cost of NumPy scalars."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def uniform(key: int, ids: np.ndarray) -> np.ndarray:
    """A float64 in (0, 1) for each id."""
    return _unit(mix(np.uint64(key) ^ mix(ids.astype(np.uint64))))


def uniform_of_keys(keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(n_keys, n_ids): `uniform` of each key."""
    return _unit(mix(keys[:, None] ^ mix(ids.astype(np.uint64))))


def _unit(bits: np.ndarray) -> np.ndarray:
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def choose(key: int, ids: np.ndarray, n: int, weights: np.ndarray | None = None) -> np.ndarray:
    """`n` of `ids` without replacement, ascending; with weights, by Efraimidis and Spirakis' exponential keys.

    Ids of weight zero are taken only when the others do not suffice.
    """
    draws = uniform(key, ids)
    if weights is not None:
        draws = by_weight(draws, weights)
    return np.sort(ids[np.argsort(draws, kind="stable")[:n]])


def by_weight(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Exponential keys: the smallest are the draw."""
    with np.errstate(divide="ignore"):
        return -np.log(draws) / weights


def permutation(key: int, n: int) -> np.ndarray:
    """0 .. n - 1 in the order of their hashes, int32."""
    ids = np.arange(n, dtype=np.uint64)
    return np.argsort(mix(np.uint64(key) ^ mix(ids)), kind="stable").astype(np.int32)
