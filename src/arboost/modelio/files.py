"""Model files: a SavedModel to bytes or a path, and back.

The format of bytes is told from their first characters, the format of a new file from its extension. A file is
written beside its place and moved there when complete, so a crash or a full disk cannot destroy the model it replaces.
"""

import os
import warnings
from typing import Any, Literal

from arboost.modelio import json_text, ubjson
from arboost.modelio.json_model import from_dict, to_dict
from arboost.modelio.schema import SavedModel
from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import ModelFileError, XGBoostError

Format = Literal["json", "ubj"]
Buffer = bytes | bytearray | memoryview
PathLike = str | os.PathLike[str]


def save_bytes(model: SavedModel, format: Format = "ubj") -> bytearray:
    """Serialise a model.

    Parameters
    ----------
    model : SavedModel
        The model.
    format : {"json", "ubj"}
        JSON text or Universal Binary JSON.

    Returns
    -------
    bytearray
        The same bytes for the same model, always.
    """
    return _encode(to_dict(model), format)


def _encode(document: dict[str, Any], format: Format) -> bytearray:
    if format == "json":
        return json_text.encode(document)
    if format == "ubj":
        return ubjson.encode(document)
    raise XGBoostError(f"Unknown model format: `{format}`. Expecting UBJSON (`ubj`) or JSON (`json`).")


def load_bytes(buffer: Buffer) -> SavedModel:
    """Read a model from the bytes of a JSON or UBJSON file.

    Parameters
    ----------
    buffer : bytes, bytearray or memoryview
        The whole file.

    Returns
    -------
    SavedModel
        A model whose every invariant has been checked.

    Raises
    ------
    ModelFileError
        If the bytes are not a complete, consistent model; the message names the field.
    """
    if _sniff(bytes(memoryview(buffer)[:64])) == "ubj":
        return from_dict(ubjson.decode(buffer))
    try:
        return from_dict(json_text.decode(buffer))
    except json_text.DoubleRoundingError:
        return from_dict(json_text.decode(buffer, exact=True))


def save_document(document: dict[str, Any], path: PathLike) -> None:
    """Write a document of several models; see `save_path`."""
    _write(_encode(document, format_of_path(path)), path)


def load_document(path: PathLike) -> Any:
    """Read a document of several models. Numbers of JSON are read exactly."""
    data = _read(path)
    return ubjson.decode(data) if _sniff(data[:64]) == "ubj" else json_text.decode(data, exact=True)


def _sniff(start: bytes) -> Format:
    """The format of a model that starts with these bytes."""
    text = start.lstrip()
    if not text:
        raise ModelFileError("The model is empty.")
    if text[:1] == b"{":
        after = text[1:].lstrip()[:1]
        if after in (b'"', b"}", b""):
            return "json"
        if start[:1] == b"{":
            return "ubj"
    raise ModelFileError(
        "Not a JSON or UBJSON model. Models in the binary format of XGBoost before 3.1 must first be loaded by an"
        " XGBoost of that time and saved again as `.json` or `.ubj`."
    )


def format_of_path(path: PathLike) -> Format:
    """The format that a file name asks for; UBJSON, with a warning, unless it ends with .json or .ubj."""
    extension = os.path.basename(os.fsdecode(path)).lower().rpartition(".")[2]
    if extension == "json":
        return "json"
    if extension != "ubj":
        warnings.warn(
            "Saving model in the UBJSON format as default. You can use a file extension: `json` or `ubj` to choose"
            " between formats.",
            UserWarning,
            stacklevel=4,
        )
    return "ubj"


def save_path(model: SavedModel, path: PathLike) -> None:
    """Write a model file.

    Parameters
    ----------
    model : SavedModel
        The model.
    path : str or path-like
        `~` stands for the home directory. The extension chooses the format, see `format_of_path`.
    """
    _write(save_bytes(model, format_of_path(path)), path)


def _write(data: bytearray, path: PathLike) -> None:
    try:
        with draft_of(path) as draft, open(draft, "wb") as file:
            file.write(data)
    except OSError as error:
        raise XGBoostError(f"Opening {os.fspath(path)} for writing failed: {error.strerror}") from error


def load_path(path: PathLike) -> SavedModel:
    """Read a model file of either format.

    Parameters
    ----------
    path : str or path-like
        `~` stands for the home directory.

    Returns
    -------
    SavedModel

    Raises
    ------
    ModelFileError
        If the file cannot be read or is not a complete, consistent model.
    """
    return load_bytes(_read(path))


def _read(path: PathLike) -> bytes:
    try:
        with open(os.path.expanduser(os.fspath(path)), "rb") as file:
            return file.read()
    except OSError as error:
        raise ModelFileError(f"Opening {os.fspath(path)} failed: {error.strerror}") from error
