"""Runs a piece of a guide with two libraries and compares what comes out.

A block is a function of the library (`xgb`) that works in the current folder and returns whatever it found: numbers,
arrays, texts, or dicts and lists of these.
"""

import re
import warnings

import numpy as np

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d+|\d+)(?:[eE][-+]?\d+)?")


def run_in(folder, monkeypatch, library, block):
    """What `block` returns, run in a folder of its own. Warnings are other tests' business."""
    home = folder / library.__name__
    home.mkdir()
    monkeypatch.chdir(home)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return block(library)


def assert_same(ours, theirs, rtol=1e-4, atol=2e-5, at="result"):
    """Equal shapes, dtypes and texts; numbers, also those within texts, within tolerance."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), at
        for key in theirs:
            assert_same(ours[key], theirs[key], rtol, atol, f"{at}[{key!r}]")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), at
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(mine, other, rtol, atol, f"{at}[{i}]")
    elif isinstance(theirs, str):
        assert _NUMBER.sub("#", ours) == _NUMBER.sub("#", theirs), at
        assert_same(_numbers(ours), _numbers(theirs), rtol, atol, f"numbers of {at}")
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype, at
        assert ours.shape == theirs.shape, at
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=at)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=at)
    else:
        assert ours == theirs, at


def _numbers(text):
    return np.array([float(number) for number in _NUMBER.findall(text)])
