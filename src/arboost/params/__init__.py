"""Parameters: what they are called, what they may be, and what a user's dict means (`resolve`, imported by name)."""

from arboost.params.markdown import as_markdown
from arboost.params.spec import Param
from arboost.params.table import PARAMS

__all__ = ["PARAMS", "Param", "as_markdown"]
