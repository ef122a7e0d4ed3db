"""The error that XGBoost users catch, its more precise kinds, and how messages name a type."""

from typing import Any


class XGBoostError(ValueError):
    """Bad input, bad parameter or bad state. A ValueError, as in XGBoost."""


class WorkerError(XGBoostError):
    """What a worker is told when another has given up, does not answer or does something else."""


class CommError(WorkerError):
    """The group of workers is broken: one was lost, gave up, left, or does something else.

    `peer` is the rank of the worker it began with, where that is known; it is this worker's own where somebody told
    it to stop. `lost` says that the worker's connection ended, or that it does not answer; without it the worker is
    there and gave up.
    """

    def __init__(self, message: str, peer: int | None = None, lost: bool = False) -> None:
        super().__init__(message)
        self.peer, self.lost = peer, lost


class ModelFileError(XGBoostError):
    """A model file that is truncated, corrupted or not a model; the message names the field."""


def type_name(value: Any) -> str:
    """The full name of a value's type, "xgboost.core.DMatrix": another library may have a class of the same name."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
