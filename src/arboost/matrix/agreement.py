"""What the shares of several workers must have in common before they are one data set, and one training.

Whoever has no rows takes over which fields there are; whoever has some must have been given the same fields as the
others. A process alone has nothing to agree on.
"""

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from arboost.matrix.categories import Categories
from arboost.matrix.cuts import Cuts
from arboost.matrix.meta import MetaInfo
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_PER_ROW = ("weight", "label_lower_bound", "label_upper_bound")
_NO_ROWS = np.zeros(0, np.float32)  # one and the same object: fields are known again by identity
_NO_GROUPS = np.zeros(1, np.int64)


def agree(
    ctx: Context,
    info: MetaInfo,
    categories: Categories | None,
    cuts: Cuts | None = None,
    training: Mapping[str, Mapping[str, str]] | None = None,
) -> int:
    """Check this worker's fields, names, types and categories against all others'; every worker must call this.

    `cuts` are those of data that is in bins already; `training` is what else must be alike: "parameters" and "trees",
    as texts by name. Returns the number of rows of all workers.

    Raises
    ------
    XGBoostError
        The workers' shares cannot be of one data set; the message says in what they differ.
    """
    if ctx.is_alone:
        return info.n_rows
    training = training or {}
    alike = _columns(info, categories, cuts) | {what: _digest(texts) for what, texts in training.items()}
    own = json.dumps({"alike": alike, "rows": info.n_rows, "fields": _fields(info)})
    shares = [json.loads(data) for data in ctx.comm.allgather(own.encode())]
    for rank, share in enumerate(shares):
        for what, advice in _ADVICE.items():
            if share["alike"].get(what) != shares[0]["alike"].get(what):
                where = _first_difference(ctx, rank, training[what]) if what in training else ""
                raise XGBoostError(f"Worker {rank} and worker 0 have different {what}{where}. {advice}")
    wanted = {name: max(share["fields"][name] for share in shares) for name in shares[0]["fields"]}
    for rank, share in enumerate(shares):
        lacking = [name for name in wanted if share["fields"][name] != wanted[name]]
        if share["rows"] and lacking:
            raise XGBoostError(
                f"Worker {rank} has rows, but not the same {lacking[0]} as another worker: give all workers the same "
                "fields, and labels of as many columns."
            )
    if not info.n_rows:
        _fill(info, wanted)
    return sum(share["rows"] for share in shares)


def _first_difference(ctx: Context, rank: int, texts: Mapping[str, str]) -> str:
    """The first name of which a worker and worker 0 have different texts; all workers ask this together."""
    every = [json.loads(data) for data in ctx.comm.allgather(json.dumps(dict(texts)).encode())]
    ours, theirs = every[rank], every[0]
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return f": {names[0]} is {ours.get(names[0], 'not set')} and {theirs.get(names[0], 'not set')}" if names else ""


def _fields(info: MetaInfo) -> dict[str, int]:
    """Which fields there are; of labels, how many columns."""
    fields = {name: int(getattr(info, name) is not None) for name in _PER_ROW}
    return fields | {"label": info.n_label_columns, "group": int(info.group_ptr is not None)}


def _fill(info: MetaInfo, wanted: dict[str, int]) -> None:
    """Fields of no rows."""
    if wanted["label"] > 1 and (info.label is None or info.label.shape != (0, wanted["label"])):
        info.label = np.zeros((0, wanted["label"]), np.float32)
    elif wanted["label"] == 1:
        info.label = _NO_ROWS
    for name in _PER_ROW:
        if wanted[name]:
            setattr(info, name, _NO_ROWS)
    if wanted["group"]:
        info.group_ptr = _NO_GROUPS


_ADVICE = {
    "numbers of features": "All workers must have the same columns; without rows, an array of shape (0, n_features).",
    "feature names": "Name the columns alike on all workers, or on none.",
    "feature types": "Give all workers the same feature_types, and frames whose columns have the same types.",
    "feature weights": "Give all workers the same feature_weights.",
    "categories": (
        "Codes would not mean the same: give the column the same categories in the same order on every worker, pass "
        "the `get_categories()` of one worker's matrix as feature_types to the others, or pass codes."
    ),
    "bins": "A QuantileDMatrix must be made by all workers together, while they are workers; or pass a DMatrix.",
    "parameters": "Give all workers the same.",
    "trees": (
        "Begin on all workers with the same model. If they did, their machines do not compute alike: use machines and "
        "libraries of one kind, and report this."
    ),
}
_COLUMNS = ("numbers of features", "feature names", "feature types", "feature weights", "categories", "bins")


def _columns(info: MetaInfo, categories: Categories | None, cuts: Cuts | None) -> dict[str, str]:
    """What is the same on all workers, as short texts by their name in messages."""
    weights = info.feature_weights
    contents = (
        info.n_features,
        info.feature_names,
        info.feature_types,
        None if weights is None else weights.tobytes(),
        None if categories is None else categories.digest,
        None if cuts is None else cuts.digest,
    )
    return {what: _digest(content) for what, content in zip(_COLUMNS, contents, strict=True)}


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()
