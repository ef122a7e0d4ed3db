"""Several models in one file: {"arboost_ensemble": {"members": [XGBoost's model documents], "state": JSON text}}.

XGBoost refuses such a file (it has no "learner"); the members are documents that it would read one by one, unless they
use extensions of ours.
"""

import json
import os
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.ensemble.schema import check_state, fail
from arboost.modelio import files
from arboost.modelio.json_model import from_dict, to_dict
from arboost.runtime.errors import ModelFileError

KEY = "arboost_ensemble"
_FORMAT = 1


def save_members(members: list[Booster], state: dict[str, Any], fname: "str | os.PathLike[str]") -> None:
    """Write models and what belongs to them."""
    document = {
        KEY: {
            "format": _FORMAT,
            "members": [to_dict(member._to_saved()) for member in members],
            "state": json.dumps(state, sort_keys=True),
        }
    }
    files.save_document(document, fname)


def load_members(fname: "str | os.PathLike[str]", n_jobs: int | None) -> tuple[list[Booster], dict[str, Any]]:
    """The way back; everything in the file is checked."""
    document = files.load_document(fname)
    if not isinstance(document, dict) or KEY not in document:
        raise ModelFileError(f"{os.fspath(fname)} holds no ensemble: it has no {KEY!r}. Is it a Booster's?")
    found = document[KEY]
    try:
        state, documents, version = json.loads(found["state"]), found["members"], found["format"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{KEY}: the ensemble cannot be read ({error!r}).") from error
    if version != _FORMAT:
        raise ModelFileError(f"{KEY}.format: this version reads {_FORMAT}, found {version!r}.")
    if not isinstance(documents, list) or not documents:
        raise ModelFileError(f"{KEY}.members: a list of models was expected.")
    check_state(state, len(documents))
    members = []
    for document in documents:
        member = Booster({"nthread": n_jobs})
        member._from_saved(from_dict(document))
        members.append(member)
    _check_members(members, state)
    return members, state


def _check_members(members: list[Booster], state: dict[str, Any]) -> None:
    """Members are trained on the columns of the state, and have the same outputs."""
    for i, member in enumerate(members):
        if member.num_features() != state["n_features_in"]:
            fail("n_features_in", f"member {i} has {member.num_features()}")
        if state["has_names"] and member.feature_names is None:
            fail("has_names", f"member {i} has no names")
        if member._learner.n_outputs != members[0]._learner.n_outputs:
            raise ModelFileError(f"{KEY}.members[{i}]: another number of outputs than the first one has.")


def pack_labels(classes: np.ndarray) -> dict[str, Any]:
    """Class labels as JSON has them."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise ModelFileError(f"Class labels of dtype {classes.dtype} have no place in a model file: use a pickle.")
    return {"dtype": "O" if classes.dtype.kind == "O" else classes.dtype.str, "values": values}
