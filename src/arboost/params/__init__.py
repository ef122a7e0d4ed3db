"""Parameters: what they are called, what they may be, and what a user's dict means."""

from arboost.params.markdown import as_markdown
from arboost.params.resolve import LearnerParams, Resolved, TreeParams, merge, normalize, resolve
from arboost.params.spec import Param
from arboost.params.table import PARAMS

__all__ = ["PARAMS", "LearnerParams", "Param", "Resolved", "TreeParams", "as_markdown", "merge", "normalize", "resolve"]
