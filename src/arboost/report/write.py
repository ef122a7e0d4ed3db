"""The two functions of the package: a report as text, and as a file."""

import os
from collections.abc import Sequence
from typing import Any

from arboost.report import curves, explain, facts, quality, trees
from arboost.report.page import render
from arboost.report.subject import make_subject
from arboost.runtime.drafts import write_text

_EXPLAINED_WORK = 2e9  # nodes x rows up to which SHAP values are found

__all__ = ["report_html", "write_report"]


def report_html(
    model: Any,
    data: Any = None,
    label: Any = None,
    *,
    evals_result: Any = None,
    title: str | None = None,
    class_names: Sequence[str] | None = None,
    iteration_range: tuple[int, int] | None = None,
    max_sample: int = 2000,
) -> str:
    """A report of a trained model as one HTML page, which needs no network.

    Parameters
    ----------
    model :
        A `Booster` or a fitted estimator.
    data :
        Rows to evaluate and explain the model on, best ones it was not trained on: a `DMatrix`, a frame, an array, or
        the path of a file. Without data the page shows the model alone.
    label :
        Labels of the rows, class names included; a `DMatrix` may bring its own.
    evals_result :
        The scores of training, for the learning curves: the dict that `train` filled in, or what `cv` returned. An
        estimator knows its own. Without any the model is scored on `data`, with more and more of its rounds.
    title :
        Heading of the page.
    class_names :
        Names of the classes, in the order of their codes.
    iteration_range :
        Rounds [begin, end) to report; by default those with which the model predicts.
    max_sample :
        Rows, at most, that are drawn one by one. SHAP values are found for at most 600 of them. The page says how
        many rows each picture shows; metrics always count all rows.

    Returns
    -------
    str
        The page. The same model and data give the same page, byte for byte.
    """
    if max_sample < 1:
        raise ValueError(f"max_sample must be at least 1, got {max_sample}.")
    subject = make_subject(model, data, label, iteration_range, max_sample, class_names)
    forest = {} if subject.is_linear else trees.tree_views(subject)
    n_nodes = sum(tree.n_nodes for tree in subject.booster._learner.model.trees)
    explanation = None
    if subject.data is not None and n_nodes * min(len(subject.sample), 600) < _EXPLAINED_WORK:
        explanation = explain.Explanation(subject)
    weighed = explain.importance(subject, explanation)
    metrics = quality.metric_table(subject)
    rows = [] if explanation is None else explain.single_rows(explanation, len(forest.get("trees", ())))
    return render(
        {
            "title": title or "Model report",
            "kind": facts.title_words(subject),
            "objective": subject.objective,
            "digest": subject.digest,
            "tiles": facts.headline(subject, metrics),
            "model": facts.model_facts(subject),
            "given": facts.given_parameters(subject),
            "parameters": facts.all_parameters(subject),
            "data": facts.data_facts(subject),
            "features": facts.feature_table(subject, weighed["order"]),
            "n_features": len(subject.names),
            "metrics": metrics,
            "versions": facts.versions(subject),
            "code": facts.code(subject),
        },
        {
            "labels": facts.label_charts(subject),
            "learning": curves.learning_charts(subject, evals_result),
            "quality": quality.quality_views(subject),
            "importance": weighed["kinds"],
            "shap": None if explanation is None else explain.shap_charts(explanation),
            "rows": rows,
            "forest": forest,
        },
    )


def write_report(
    model: Any,
    path: "str | os.PathLike[str]",
    data: Any = None,
    label: Any = None,
    *,
    evals_result: Any = None,
    title: str | None = None,
    class_names: Sequence[str] | None = None,
    iteration_range: tuple[int, int] | None = None,
    max_sample: int = 2000,
) -> None:
    """Write `report_html`'s page to a file: it opens in any browser and can be mailed as it is.

    Parameters
    ----------
    model :
        A `Booster` or a fitted estimator.
    path :
        The file to write, complete or not at all.
    data, label, evals_result, title, class_names, iteration_range, max_sample :
        As in `report_html`.

    Examples
    --------
    >>> from arboost.report import write_report
    >>> write_report(model, "report.html", X_test, y_test)  # doctest: +SKIP
    """
    text = report_html(
        model,
        data,
        label,
        evals_result=evals_result,
        title=title,
        class_names=class_names,
        iteration_range=iteration_range,
        max_sample=max_sample,
    )
    write_text(path, text)
