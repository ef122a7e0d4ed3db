"""Model cards: what a Booster or an estimator shows of itself in a notebook.

Nothing is computed from data. The digest is the SHA-256 of the model as `save_raw` writes it, so that two cards with
one digest stand for the same bits.
"""

import hashlib
from typing import Any

from arboost.runtime.card import make_card

_SHOWN = 6  # names of features
_DIGEST_NODES = 100_000  # a larger model would keep the reader of a card waiting


def model_digest(booster: Any) -> str:
    """SHA-256 of the model file, in hexadecimal digits."""
    return hashlib.sha256(booster.save_raw()).hexdigest()


def booster_card(booster: Any, title: str = "Booster") -> str:
    """The card of a model, trained or not."""
    learner = booster._learner
    model = learner.model
    if not learner.n_features:
        return make_card(title, "not trained yet", sorted(learner.params.items()))
    facts: list[tuple[str, Any]] = [("objective", learner.loss.name), ("booster", model.kind)]
    facts.append(("rounds", f"{model.n_rounds:,}"))
    if model.trees:
        facts.append(("trees", f"{len(model.trees):,}"))
    facts.append(("features", _features(booster)))
    if learner.n_outputs > 1:
        facts.append(("outputs", learner.n_outputs))
    best = booster.attr("best_iteration")
    if best is not None:
        score = booster.attr("best_score")
        facts.append(("best iteration", best if score is None else f"{best} (score {_short(score)})"))
    if sum(tree.n_nodes for tree in model.trees) <= _DIGEST_NODES:
        facts.append(("digest", f"sha256 {model_digest(booster)[:16]}…"))
    return make_card(title, learner.loss.name, facts[1:])


def _short(score: str) -> str:
    """Six digits of what should be a number: files may hold anything."""
    try:
        return f"{float(score):.6g}"
    except ValueError:
        return score


def _features(booster: Any) -> str:
    names = booster.feature_names
    count = f"{booster.num_features():,}"
    if not names:
        return count
    more = ", …" if len(names) > _SHOWN else ""
    return f"{count}: {', '.join(names[:_SHOWN])}{more}"


def estimator_card(estimator: Any) -> str:
    """The card of a fitted estimator's model, to stand below scikit-learn's own picture; else nothing."""
    if not estimator.__sklearn_is_fitted__():
        return ""
    return booster_card(estimator.get_booster(), type(estimator).__name__)


def with_card(estimator: Any, bundle: dict[str, Any]) -> dict[str, Any]:
    """What scikit-learn shows of an estimator, with the card added where it is HTML."""
    if "text/html" in bundle:
        bundle["text/html"] += estimator_card(estimator)
    return bundle
