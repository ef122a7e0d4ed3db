"""Training with a kernel cache that is whole, damaged or new: the same model, whatever the disk holds."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from arboost.kernels.cache import cache_folder

# A process of its own trains and predicts, and reports what that took.
TRAIN = """
import json, sys
import numpy as np
from numba.core import event
import arboost
rng = np.random.default_rng(0)
X = rng.standard_normal((500, 4), dtype=np.float32)
data = arboost.DMatrix(X, X[:, 0] * X[:, 1] > 0)
with event.install_recorder("numba:compile") as recorder:
    booster = arboost.train({"objective": "binary:logistic", "nthread": 2}, data, 4)
    margins = booster.predict(data, output_margin=True)
print(json.dumps({
    "model": bytes(booster.save_raw()).hex() + margins.tobytes().hex(),
    "compiled": len(recorder.buffer),
    "compiler": [name for name in ("numba.np.linalg", "numba.typed.typeddict", "scipy.linalg") if name in sys.modules],
}))
"""


def train(folder):
    run = subprocess.run(
        [sys.executable, "-c", TRAIN],
        env=os.environ | {"ARBOOST_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache of this module's own that has all the training needs, and what the training gives."""
    folder = tmp_path_factory.mktemp("kernels")
    if cache_folder() is not None:
        shutil.copytree(cache_folder(), folder / cache_folder().name)
    train(folder)
    return folder, train(folder)


def test_with_a_filled_cache_nothing_is_compiled_nor_the_compiler_loaded(filled):
    """Loading Numba's compiler would be most of the time of a worker's first fit."""
    _, (seen, said) = filled
    assert seen["compiled"] == 0
    assert seen["compiler"] == []
    assert said == ""


def damage(content, way):
    """One of several ways to spoil a file."""
    draw = random.Random(way)
    place = draw.randrange(len(content))
    flipped = bytes([content[place] ^ (1 << draw.randrange(8))])
    return [b"", draw.randbytes(len(content)), content[:place], content[:place] + flipped + content[place + 1 :]][
        way % 4
    ]


def test_a_cache_in_which_every_file_is_damaged(filled):
    folder, (expected, _) = filled
    files = sorted(folder.rglob("*.kernel"))
    assert len(files) >= 15
    for way, path in enumerate(files):
        path.write_bytes(damage(path.read_bytes(), way))
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in files}
    seen, said = train(folder)
    assert seen["model"] == expected["model"]
    assert seen["compiled"] > 0
    assert "compiling kernels for this machine" in said
    replaced = [path for path in files if hashlib.sha256(path.read_bytes()).digest() != before[path]]
    assert len(replaced) >= 15
    again, said = train(folder)
    assert again == expected
    assert said == ""
