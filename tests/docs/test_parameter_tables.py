"""The tables that lead from other libraries' parameters to ours name what exists, on both sides."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import arboost
from arboost.params.table import OBJECTIVES, PARAMS
from child_process import need

DOCS = Path(__file__).resolve().parents[2] / "docs"
PEERS = {"lightgbm": "LightGBM", "catboost": "CatBoost", "sklearn": "scikit-learn"}
CODE = re.compile(r"`([^`]+)`")


def rows_of(library, heading):
    """The first two cells of the rows of all tables whose first heading starts with this."""
    text = (DOCS / f"coming_from_{library}.md").read_text(encoding="utf-8")
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        if rows[0][0].startswith(heading):
            found += [row[:2] for row in rows[2:]]
    return found


def our_names():
    names = {name for param in PARAMS.values() for name in (param.name, *param.aliases)}
    for function in (
        arboost.train,
        arboost.cv,
        arboost.DMatrix.__init__,
        arboost.XGBClassifier.__init__,
        arboost.XGBModel.__init__,
        arboost.XGBClassifier.fit,
        arboost.XGBRegressor.fit,
    ):
        names |= set(inspect.signature(function).parameters)
    return names


def lightgbm_names():
    aliases = importlib.import_module("lightgbm.basic")._ConfigAliases._get_all_param_aliases()
    return {name for main, others in aliases.items() for name in (main, *others)}


def catboost_names():
    return set(inspect.signature(importlib.import_module("catboost").CatBoostClassifier.__init__).parameters)


def sklearn_names():
    ensemble = importlib.import_module("sklearn.ensemble")
    classes = (
        ensemble.HistGradientBoostingClassifier,
        ensemble.HistGradientBoostingRegressor,
        ensemble.GradientBoostingClassifier,
        ensemble.GradientBoostingRegressor,
    )
    return {name for cls in classes for name in inspect.signature(cls.__init__).parameters}


THEIR_NAMES = {"lightgbm": lightgbm_names, "catboost": catboost_names, "sklearn": sklearn_names}


@pytest.mark.parametrize("library", PEERS)
def test_parameters_exist_on_both_sides(library):
    need(library, "sklearn")
    rows = rows_of(library, PEERS[library])
    assert len(rows) > 15
    theirs, ours = THEIR_NAMES[library](), our_names()
    left = {name for row in rows for name in CODE.findall(row[0])}
    right = {name for row in rows for name in CODE.findall(row[1])}
    assert left <= theirs, f"{library} has no {sorted(left - theirs)}"
    assert right <= ours, f"arboost has no {sorted(right - ours)}"


@pytest.mark.parametrize("library, heading", [("lightgbm", "objective of"), ("catboost", "loss of")])
def test_objectives_exist(library, heading):
    named = {name for row in rows_of(library, heading) for name in CODE.findall(row[1])}
    assert len(named) > 5 and named <= set(OBJECTIVES)
