"""Training from pages on disk gives the bytes of training in memory, for every kind of tree, and reads little."""

import os
import threading

import numpy as np
import pytest

import arboost
from arboost.matrix.store import PageCache, StoredPages
from page_kinds import COMMON, KINDS, N_ROWS, X, Y
from page_sources import Parts

EDGES = (0, 1, 700, 701, 2100, N_ROWS)  # of batches; groups and pages lie across them
PAGE_ROWS = {1: N_ROWS, 2: 1536, 7: 448}  # a multiple of 64


def split_fields(fields):
    """(what belongs to rows, what belongs to the matrix)."""
    fields = {"label": Y, **fields}
    if "label_lower_bound" in fields:
        del fields["label"]
    options = {"enable_categorical": fields.pop("enable_categorical", False)}
    return fields, options


def on_disk(folders, n_pages, fields=None, row_bytes=13, kind=arboost.ExtMemQuantileDMatrix, table=X, **options):
    fields, more = split_fields(fields or {})
    parts = Parts(table, fields, EDGES, cache_prefix=folders, min_cache_page_bytes=PAGE_ROWS[n_pages] * row_bytes)
    return kind(parts, **more, **options)


def in_memory(fields=None, **options):
    fields, more = split_fields(fields or {})
    return arboost.DMatrix(X, **fields, **more, **options)


def train(params, data, n_threads=2, rounds=4, evals=(), **options):
    result = {}
    watched = [(data, "train"), *evals]
    params = {**COMMON, **params, "nthread": n_threads}
    options |= {"evals": watched, "evals_result": result, "verbose_eval": False}
    model = arboost.train(params, data, rounds, **options)
    return bytes(model.save_raw()), result


@pytest.mark.parametrize("kind", KINDS)
def test_one_page_two_and_seven(kind, tmp_path):
    params, fields = KINDS[kind]
    expected = train(params, in_memory(fields))
    max_bin = params.get("max_bin", 256)
    shards = [tmp_path / "a", tmp_path / "b"]
    for shard in shards:
        shard.mkdir()
    for n_pages, folders in ((1, tmp_path), (2, shards), (7, str(tmp_path / "cache"))):
        data = on_disk(folders, n_pages, fields, 26 if max_bin > 256 else 13, max_bin=max_bin)
        assert len(data.pages(data._ctx, max_bin)) == n_pages
        for n_threads in (1, 3):
            assert train(params, data, n_threads) == expected, (n_pages, n_threads)


@pytest.mark.parametrize("memory_budget", [0, 30_000, 10**9])
def test_pages_in_memory_and_on_disk(memory_budget, tmp_path):
    expected = train({"subsample": 0.5}, in_memory())
    data = on_disk(tmp_path, 7, kind=arboost.DMatrix)
    data.keep_on_disk(PageCache(tmp_path, memory_budget, page_bytes=PAGE_ROWS[7] * 13))
    pages = data.pages(data._ctx, 256)
    assert (pages.disk_bytes == 0) == (memory_budget == 10**9)
    assert (pages.disk_bytes < 13 * N_ROWS) == (memory_budget > 0)
    assert train({"subsample": 0.5}, data) == expected


def test_a_matrix_that_is_read_anew(tmp_path):
    """DMatrix keeps its source for prediction, and its bins on disk."""
    data = on_disk(tmp_path, 7, kind=arboost.DMatrix)
    expected = in_memory()
    assert train({}, data) == train({}, expected)
    assert isinstance(data.pages(data._ctx, 256), StoredPages)
    assert train({"max_bin": 16}, data) == train({"max_bin": 16}, expected)
    weights = np.linspace(1, 2, N_ROWS)
    data.set_weight(weights)
    assert train({}, data) == train({}, in_memory({"weight": weights}))
    np.testing.assert_array_equal(data.slice([5, 2999, 1]).get_label(), Y[[5, 2999, 1]])


@pytest.mark.parametrize("kind", ["regression", "sets", "classes", "dart"])
def test_evaluation_sets_from_pages(kind, tmp_path):
    """Their rows walk by bins of the training data's cuts."""
    params, fields = KINDS[kind]
    rng = np.random.default_rng(9)
    order = rng.permutation(N_ROWS)
    other = {n: v[order] if isinstance(v, np.ndarray) else v for n, v in {"label": Y, **fields}.items()}
    memory = in_memory(fields)
    expected = train(params, memory, evals=[(arboost.DMatrix(X[order], **other), "other")])
    data = on_disk(tmp_path, 7, fields)
    evaluated = on_disk(tmp_path, 2, other, table=X[order], ref=data)
    assert train(params, data, evals=[(evaluated, "other")]) == expected
    assert evaluated.ref() is data


def test_early_stopping_and_continuation(tmp_path):
    noise = np.random.default_rng(3).normal(size=N_ROWS).astype(np.float32)
    found = []
    for make in (in_memory, lambda fields: on_disk(tmp_path, 7, fields)):
        data, watched = make({}), make({"label": noise})
        options = {"evals": [(watched, "noise")], "early_stopping_rounds": 2, "verbose_eval": False}
        first = arboost.train({**COMMON, "eta": 1.0}, data, 20, **options)
        more = arboost.train({**COMMON, "subsample": 0.5}, data, 3, xgb_model=first)
        updated = {"process_type": "update", "updater": "refresh", "refresh_leaf": True, **COMMON}
        again = arboost.train(updated, watched, 2, xgb_model=more)
        found.append([first.best_iteration, *(bytes(model.save_raw()) for model in (first, more, again))])
    assert found[0] == found[1]
    assert found[0][0] < 19


def test_custom_objective(tmp_path):
    def squared(margin, data):
        return margin - data.get_label(), np.ones(len(margin), np.float32)

    found = [
        bytes(arboost.train(COMMON, data, 3, obj=squared).save_raw()) for data in (in_memory(), on_disk(tmp_path, 7))
    ]
    assert found[0] == found[1]


def test_what_a_matrix_tells(tmp_path):
    fields = {"weight": np.linspace(0.5, 2, N_ROWS), "qid": np.arange(N_ROWS) // 30}
    data, memory = on_disk(tmp_path, 7, fields), arboost.QuantileDMatrix(X, Y, **fields)
    assert (data.num_row(), data.num_col(), data.num_nonmissing()) == (N_ROWS, 5, memory.num_nonmissing())
    for name in ("get_label", "get_weight", "get_group", "get_base_margin"):
        np.testing.assert_array_equal(getattr(data, name)(), getattr(memory, name)())
    for mine, theirs in zip(data.get_quantile_cut(), memory.get_quantile_cut(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (data.get_data() != memory.get_data()).nnz == 0
    model = arboost.train(COMMON, memory, 3)
    for options in ({}, {"pred_leaf": True}, {"pred_contribs": True}, {"output_margin": True}):
        np.testing.assert_array_equal(model.predict(data, **options), model.predict(memory, **options))


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda data, path: data.slice([1]), "Slicing is not supported for ExtMemQuantileDMatrix"),
        (lambda data, path: data.save_binary(path / "x"), "ExtMemQuantileDMatrix has let its data go"),
        (lambda data, path: arboost.cv({}, data), "`ExtMemQuantileDMatrix` is not yet supported by `cv`"),
        (lambda data, path: arboost.train({"max_bin": 7}, data), "Inconsistent `max_bin`"),
        (lambda data, path: arboost.train({"tree_method": "exact"}, data), "use `ExtMemQuantileDMatrix`"),
        (lambda data, path: arboost.train({"tree_method": "approx"}, data), "use the `ExtMemQuantileDMatrix`"),
        (
            lambda data, path: arboost.train({"booster": "gblinear"}, data),
            "Not implemented for `ExtMemQuantileDMatrix`",
        ),
        (lambda data, path: data.binned(data._ctx, 256), "use QuantileDMatrix"),
        (lambda data, path: on_disk(path, 7, ref=data, max_bin=7), "Inconsistent `max_bin`"),
        (lambda data, path: on_disk(path, 7, table=X[:, :3], ref=data), "different number of features"),
        (lambda data, path: on_disk(path, 7, memory_budget="much"), "memory_budget is a number of bytes"),
        (lambda data, path: on_disk(path / "no" / "cache", 7), "folder for pages is not there.*no"),
        (lambda data, path: on_disk([], 7), "empty list"),
        (lambda data, path: on_disk([7], 7), "must be a path or a list of paths, got 7"),
    ],
)
def test_refused_by_name(do, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        do(on_disk(tmp_path, 7), tmp_path)


def test_only_iterators():
    with pytest.raises(TypeError, match="reads a DataIter"):
        arboost.ExtMemQuantileDMatrix(X)


# ---- how much is read ----


@pytest.fixture
def visits(monkeypatch):
    """(columns, whether words) of every reading of all pages."""
    seen = []
    visit = StoredPages.visit

    def counted(self, columns=None, words=True):
        seen.append((None if columns is None else list(columns), words))
        return visit(self, columns, words)

    monkeypatch.setattr(StoredPages, "visit", counted)
    return seen


def test_pages_are_read_once_a_level(tmp_path, visits):
    data = on_disk(tmp_path, 7)
    arboost.train({"max_depth": 3}, data, 1)
    model = arboost.train({"max_depth": 3}, data, 2)
    assert len(visits) == 12  # three trees: the root and three levels of splits
    root, *levels = visits[:4]
    assert root == ([], True)
    splits = model[:1].trees_to_dataframe().set_index("ID")
    top = splits.loc["0-0"]
    assert levels[0] == ([int(top["Feature"][1:])], True)
    assert levels[1] == (sorted({int(splits["Feature"][top[side]][1:]) for side in ("Yes", "No")}), True)
    assert not levels[2][1], "the last level builds nothing"


@pytest.mark.parametrize("method", ["uniform", "gradient_based"])
def test_a_sample_is_gathered_once_for_a_tree(tmp_path, visits, method):
    params = {"subsample": 0.3, "sampling_method": method, "max_depth": 4}
    data = on_disk(tmp_path, 7)
    model = arboost.train(params, data, 2)
    assert visits == [([], True)] * 4, "for each tree: its sample, and the weights of all rows"
    visits.clear()
    small = on_disk(tmp_path, 7, kind=arboost.DMatrix)
    small.keep_on_disk(PageCache(tmp_path, 0, page_bytes=PAGE_ROWS[7] * 13))
    assert arboost.train(params, small, 2).save_raw() == model.save_raw()
    assert len(visits) == 2 * (1 + 4 + 1)


# ---- several at a time ----


def test_two_trainings_at_once(tmp_path):
    data = on_disk(tmp_path, 7)
    expected, found = train({}, data), [None, None]

    def work(i):
        found[i] = train({}, data, rounds=4)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected, expected]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_reads_its_parents_pages(tmp_path):
    data = on_disk(tmp_path, 7)
    expected = train({}, data)
    child = os.fork()
    if child == 0:
        same = train({}, data) == expected
        data.close()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert train({}, data) == expected
