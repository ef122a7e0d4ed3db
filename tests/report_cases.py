"""A small model of every kind that reports know, with rows to report it on; and a reader of finished pages."""

import functools
import html
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import arboost
from arboost import DMatrix

CASES = (
    "binary", "logitraw", "hinge", "multiclass", "multilabel", "regression", "multi_target", "vector_leaves", "poisson",
    "tweedie", "gamma", "quantile", "one_quantile", "expectile", "ranking", "cox", "aft", "dart", "gblinear", "shares",
    "categories",
)  # fmt: skip
N_ROWS, N_ROUNDS = 240, 6


@dataclass(frozen=True)
class Case:
    """A trained model, the matrix it is reported on, and the parameters."""

    model: arboost.Booster
    data: DMatrix
    params: dict[str, Any]


@functools.cache
def make_case(name: str) -> Case:
    """The case of this name; the same object every time."""
    params, fields = _CASES[name](np.random.default_rng(3))
    X = fields.pop("data", None)
    data = DMatrix(_features() if X is None else X, enable_categorical=True, **fields)
    params = {"seed": 5, **({} if name == "gblinear" else {"max_depth": 3}), **params}
    return Case(arboost.train(params, data, N_ROUNDS), data, params)


def _features() -> np.ndarray:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def _signal(rng: np.random.Generator) -> np.ndarray:
    X = np.nan_to_num(_features())
    return X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.3 * rng.normal(size=N_ROWS)


def _of(objective: str, label: Any, **params: Any) -> Any:
    return lambda rng: ({"objective": objective, **params}, {"label": label(rng)})


def _classes(rng: np.random.Generator) -> np.ndarray:
    return np.digitize(_signal(rng), (-0.5, 0.5))


def _targets(rng: np.random.Generator) -> np.ndarray:
    return np.column_stack([_signal(rng), -(_signal(rng) ** 2)])


def _ranking(rng: np.random.Generator) -> tuple[dict, dict]:
    return {"objective": "rank:ndcg"}, {"label": _classes(rng), "group": [5, 15, *[20] * 11]}


def _aft(rng: np.random.Generator) -> tuple[dict, dict]:
    low = np.exp(_signal(rng))
    high = np.where(rng.random(N_ROWS) < 0.3, np.inf, low)
    return {"objective": "survival:aft"}, {"label_lower_bound": low, "label_upper_bound": high}


def _cox(rng: np.random.Generator) -> np.ndarray:
    return np.exp(-_signal(rng)) * np.where(rng.random(N_ROWS) < 0.3, -1, 1)


def _categories(rng: np.random.Generator) -> tuple[dict, dict]:
    import pandas as pd

    frame = pd.DataFrame(_features(), columns=list("abcde"))
    colors = rng.choice(["red", "green", "blue"], N_ROWS)
    frame["color"] = pd.Categorical(colors)
    label = _signal(rng) + (colors == "red") > 0.5
    return {"objective": "binary:logistic", "max_cat_to_onehot": 1}, {"data": frame, "label": label}


_CASES: dict[str, Any] = {
    "binary": _of("binary:logistic", lambda rng: _signal(rng) > 0, eval_metric=["auc", "logloss"]),
    "logitraw": _of("binary:logitraw", lambda rng: _signal(rng) > 0),
    "hinge": _of("binary:hinge", lambda rng: _signal(rng) > 0),
    "multiclass": _of("multi:softprob", _classes, num_class=3),
    "multilabel": _of("binary:logistic", lambda rng: _targets(rng) > -0.5),
    "regression": _of("reg:squarederror", _signal),
    "multi_target": _of("reg:squarederror", _targets),
    "vector_leaves": _of("reg:squarederror", _targets, multi_strategy="multi_output_tree"),
    "poisson": _of("count:poisson", lambda rng: rng.poisson(np.exp(_signal(rng)))),
    "tweedie": _of("reg:tweedie", lambda rng: np.maximum(0, _signal(rng))),
    "gamma": _of("reg:gamma", lambda rng: np.exp(_signal(rng))),
    "quantile": _of("reg:quantileerror", _signal, quantile_alpha=[0.1, 0.5, 0.9]),
    "one_quantile": _of("reg:quantileerror", _signal, quantile_alpha=0.8),
    "expectile": _of("reg:expectileerror", _signal, expectile_alpha=[0.2, 0.8]),
    "ranking": _ranking,
    "cox": _of("survival:cox", _cox),
    "aft": _aft,
    "dart": _of("reg:squarederror", _signal, booster="dart", rate_drop=0.3),
    "gblinear": _of("reg:squarederror", _signal, booster="gblinear"),
    "shares": _of("reg:logistic", lambda rng: 1 / (1 + np.exp(-_signal(rng)))),
    "categories": _categories,
}


@dataclass(frozen=True)
class Page:
    """A finished page: its source, its charts, its metric table, the ids of its sections."""

    text: str
    charts: dict[str, Any]
    metrics: dict[str, float]
    sections: list[str]

    def chart(self, title: str) -> dict[str, Any]:
        """The first chart of this title."""
        every = [chart for view in self.charts["quality"] for chart in view["charts"]]
        every += self.charts["learning"] + self.charts["labels"]
        return next(chart for chart in every if chart["title"] == title)


def read_page(text: str) -> Page:
    """Take a page apart."""
    block = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    rows = re.findall(r'<tr data-metric="([^"]*)">.*?data-value="([^"]*)"', text)
    metrics = {html.unescape(name): float(value) for name, value in rows}
    return Page(text, json.loads(block[1]), metrics, re.findall(r'<section id="(\w+)">', text))
