"""What kernels are for: the words of `python -m arboost compile`, and of the line that announces a compilation."""

KINDS = {
    "hist": "training (hist), prediction and metrics",
    "approx": "approximate split finding (approx)",
    "categories": "categorical features and monotone constraints",
    "choice": "fewer candidates (min_data_in_leaf, extra_trees)",
    "device": "training and prediction on a GPU",
    "exact": "exact split finding (exact)",
    "forests": "random forests and extra trees",
    "linear": "linear models (gblinear)",
    "linear_leaves": "linear leaves",
    "ordered": "ordered boosting",
    "pages": "training from pages on disk",
    "rank": "ranking",
    "shap": "contributions of features (SHAP)",
    "statistics": "target statistics of categories",
    "survival": "survival analysis",
    "symmetric": "symmetric trees",
    "text": "files of text",
    "update": "updating trees",
    "vector": "trees with several targets",
}

# Modules whose kernels no fit needs but those of one kind; all others belong to hist.
_KIND_OF_MODULE = {
    "candidates": "exact",
    "exact": "exact",
    "leaf_fit": "linear_leaves",
    "linear": "linear",
    "linear_leaves": "linear_leaves",
    "local_proposals": "approx",
    "paged": "pages",
    "paging": "pages",
    "rank": "rank",
    "rebin": "approx",
    "refresh": "update",
    "shap": "shap",
    "statistics": "statistics",
    "summary": "approx",
    "support": "ordered",
    "survival": "survival",
    "symmetric": "symmetric",
    "text": "text",
    "whole": "forests",
}


def kind_of(module: str) -> str:
    """The kind of the kernels of a module, by its full name."""
    return _KIND_OF_MODULE.get(module.rpartition(".")[2], "hist")
