"""Categories of a model <-> the category container of XGBoost's files ("enc", "feature_segments", "sorted_idx").

    strings    {"offsets": n + 1 byte offsets, "values": UTF-8 bytes of all, as signed integers}
    integers   {"type": XGBoost's number of the type, "values": the integers}
    numerical  {"offsets": [], "values": []}

`sorted_idx` orders each feature's categories; XGBoost searches by it, and compares bytes as signed integers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arboost.matrix.categories import Categories
from arboost.modelio.schema import CATEGORY_DTYPES

_TYPE_OF = {np.dtype(dtype): code for code, dtype in CATEGORY_DTYPES.items()}
_NONE: dict[str, Any] = {"offsets": [], "values": []}
_FLIP_SIGN = bytes((byte + 128) % 256 for byte in range(256))  # makes unsigned comparison that of signed bytes


def pack_categories(categories: Categories | None) -> dict[str, Any] | None:
    """The container of stored categories (`Categories.stored`); None if there are none."""
    if categories is None or not any(values is not None and len(values) for values in categories.values):
        return None
    packed = [_pack(values) for values in categories.values]
    counts = [len(order) for _, order in packed]
    return {
        "enc": [enc for enc, _ in packed],
        "feature_segments": [0, *np.cumsum(counts).tolist()],
        "sorted_idx": [int(i) for _, order in packed for i in order],
    }


def unpack_categories(cats: dict[str, Any] | None, feature_types: Sequence[str] | None) -> Categories | None:
    """Categories from a container that `schema.check_model` has accepted."""
    if cats is None:
        return None
    values = [_unpack(enc) for enc in cats["enc"]]
    for f, kind in enumerate(feature_types or ()):
        if kind == "c" and values[f] is None:
            values[f] = np.zeros(0, object)  # categorical, but training had no category
    categories = Categories(values)
    return None if categories.empty() else categories


def _pack(values: np.ndarray | None) -> tuple[dict[str, Any], list[int]]:
    """(encoding, order) of one feature."""
    if values is None or not len(values):
        return dict(_NONE), []
    if values.dtype.kind in "iu":
        order = np.argsort(values, kind="stable").tolist()
        return {"type": _TYPE_OF[values.dtype.newbyteorder("=")], "values": values.tolist()}, order
    texts = [text.encode(errors="surrogateescape") for text in values.tolist()]
    offsets = [0, *np.cumsum([len(text) for text in texts]).tolist()]
    keys = [text.translate(_FLIP_SIGN) for text in texts]
    order = sorted(range(len(texts)), key=keys.__getitem__)
    return {"offsets": offsets, "values": np.frombuffer(b"".join(texts), np.int8).tolist()}, order


def _unpack(enc: dict[str, Any]) -> np.ndarray | None:
    """Category values of one feature, None if it has none."""
    if "type" in enc:
        values = np.asarray(enc["values"], CATEGORY_DTYPES[enc["type"]])
        return values if len(values) else None
    offsets = enc["offsets"]
    if len(offsets) < 2:
        return None
    text = np.asarray(enc["values"], np.int8).tobytes()
    names = np.empty(len(offsets) - 1, object)
    for i in range(len(names)):  # XGBoost 3.2 cuts what is not ASCII in pieces, which must survive
        names[i] = text[offsets[i] : offsets[i + 1]].decode(errors="surrogateescape")
    return names
