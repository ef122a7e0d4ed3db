"""XGBoost's `libpath`: where its compiled library lies. There is none here, and whoever asks is told so."""

import os

__all__ = ["XGBoostLibraryNotFound", "find_lib_path", "is_sphinx_build"]


class XGBoostLibraryNotFound(Exception):
    """There is no compiled library."""


def is_sphinx_build() -> bool:
    """Whether XGBoost's documentation is being built."""
    return bool(os.environ.get("XGBOOST_BUILD_DOC"))


def find_lib_path() -> list[str]:
    """Paths of the compiled library: none, which is an error as in XGBoost."""
    raise XGBoostLibraryNotFound("arboost has no compiled library: its kernels are compiled by Numba when used.")
