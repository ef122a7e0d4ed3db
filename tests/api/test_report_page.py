"""Reports in a real browser: every kind of model draws without an error or a request, and can be looked through."""

import numpy as np
import pytest

import arboost
from arboost.report import report_html, write_report
from browser import open_browser
from report_cases import CASES, make_case, read_page

READY = "document.documentElement.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def show(browser, tmp_path):
    def open_report(model, *args, **kwargs):
        write_report(model, tmp_path / "report.html", *args, **kwargs)
        browser.open(tmp_path / "report.html")
        browser.wait(READY)
        browser.wait("[...document.querySelectorAll('[data-view]')].every(view => view.querySelector('svg'))")
        return browser

    return open_report


def complaints(browser):
    """Console errors, and requests to the network."""
    return browser.errors() + [url for url in browser.outside_requests() if url.startswith(("http", "ws"))]


def press(browser, element):
    """Click without scrolling there first."""
    browser.run("arguments[0].click()", element)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_is_drawn(name, show):
    case = make_case(name)
    page = show(case.model, case.data)
    views = {view: page.run(f"return document.querySelector('[data-view={view}]')?.querySelectorAll('svg').length")
             for view in ("quality", "importance", "shap", "rows", "trees", "learning")}  # fmt: skip
    absent = {"trees", "learning"} if name == "gblinear" else set()
    assert {view for view, count in views.items() if not count} == absent
    n_charts = len(read_page(report_html(case.model, case.data)).charts["quality"][0]["charts"])
    assert len(page.find_all("[data-view=quality] figure")) == n_charts
    assert page.run("return document.documentElement.outerHTML.includes('NaN')") is False
    assert complaints(page) == []


def test_lines_to_compare_with_stay_inside_their_chart(show):
    """A model of one round predicts a narrow range, of which the line of no error is the smallest part."""
    rng = np.random.default_rng(0)
    data = arboost.DMatrix(rng.normal(size=(200, 3)), rng.normal(size=200) * 100)
    page = show(arboost.train({"eta": 0.1}, data, 1), data)
    charts = page.run(
        """return [...document.querySelectorAll('[data-view=quality] svg.refs')].map(box => ({
            overflow: getComputedStyle(box).overflow,
            right: Number(box.getAttribute('x')) + Number(box.getAttribute('width')),
            room: box.closest('svg.chart').viewBox.baseVal.width,
            line: box.querySelector('path').getBBox().width,
        }))"""
    )
    assert len(charts) >= 3
    assert all(chart["overflow"] == "hidden" and chart["right"] <= chart["room"] for chart in charts)
    assert max(chart["line"] / chart["room"] for chart in charts) > 2  # so much would be drawn over the neighbours


def test_a_model_alone_is_drawn(show):
    page = show(make_case("multiclass").model)
    assert page.texts("nav li a") == ["Importance", "Trees", "Features", "Parameters", "Reproduce"]
    assert complaints(page) == []


def test_numbers_in_the_page_are_the_engines(show):
    case = make_case("binary")
    page = show(case.model, case.data)
    for name in ("auc", "logloss"):
        shown = float(page.find(f"[data-metric={name}] .value").get_attribute("data-value"))
        assert f"eval-{name}:{shown:.17f}" in case.model.eval(case.data)
    predicted, label = case.model.predict(case.data) > 0.5, case.data.get_label() > 0
    cells = [int(text) for text in page.texts(".confusion .cell strong")]
    assert cells == [
        int((~predicted & ~label).sum()), int((predicted & ~label).sum()),
        int((~predicted & label).sum()), int((predicted & label).sum()),
    ]  # fmt: skip
    assert page.find("[data-score=accuracy]").text == f"{(predicted == label).mean():.1%}"


def test_the_threshold_can_be_moved(show):
    case = make_case("binary")
    page = show(case.model, case.data)
    page.run(
        "const slider = document.querySelector('input[aria-label=threshold]');"
        "slider.value = 80; slider.dispatchEvent(new Event('input'))"
    )
    predicted, label = case.model.predict(case.data) > 0.8, case.data.get_label() > 0
    assert int(page.texts(".confusion .cell strong")[3]) == int((predicted & label).sum())


def test_trees_can_be_browsed(show):
    case = make_case("regression")
    page = show(case.model, case.data)
    trees = case.model._learner.model.trees
    about = "document.querySelector('[data-about]').textContent"
    assert page.run(f"return {about}").startswith(f"tree 0 of {len(trees)} · round 0")
    page.run("document.querySelector('button[aria-label=\"next tree\"]').click()")
    assert page.run(f"return {about}").startswith("tree 1 of")
    page.run("document.querySelector('.canvas').focus()")
    page.press("ARROW_RIGHT", "ARROW_RIGHT", "ARROW_LEFT")
    assert page.run(f"return {about}").startswith("tree 2 of")
    page.run("document.querySelector('button[aria-label=\"unfold all\"]').click()")
    tree = trees[2]
    assert len(page.find_all(".canvas .node")) == tree.n_nodes
    leaf = int(np.flatnonzero(tree.left < 0)[0])
    page.run(f"document.querySelector('.canvas [data-node=\"{leaf}\"]').dispatchEvent(new MouseEvent('click'))")
    assert np.float32(page.find("[data-fact=weight]").text.replace(",", "")) == tree.threshold[leaf]
    page.run("document.querySelector('.canvas [data-node=\"0\"]').dispatchEvent(new MouseEvent('click'))")
    assert page.find("[data-fact=missing]").text == ("left" if tree.default_left[0] else "right")
    assert np.float32(page.find("[data-fact='left if']").text.removeprefix("< ")) == tree.threshold[0]
    assert complaints(page) == []


def test_large_trees_are_folded_until_they_are_opened(show):
    X = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    data = arboost.DMatrix(X, np.random.default_rng(1).normal(size=400))
    model = arboost.train({"max_depth": 8, "min_child_weight": 0}, data, 1)
    page = show(model, data)
    few = len(page.find_all(".canvas .node"))
    assert few < model._learner.model.trees[0].n_nodes
    page.run("document.querySelector('.canvas .fold').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert len(page.find_all(".canvas .node")) == few + 2


def test_the_path_of_the_chosen_row_is_drawn(show):
    case = make_case("categories")
    page = show(case.model, case.data)
    page.run("document.querySelector('button[aria-label=\"unfold all\"]').click()")
    leaves = case.model.predict(case.data, pred_leaf=True)
    rows = read_page(report_html(case.model, case.data)).charts["rows"]
    for index in (0, 5):
        page.run(
            "const select = document.querySelector('select[aria-label=row]');"
            f"select.selectedIndex = {index}; select.dispatchEvent(new Event('change'))"
        )
        found = [int(node.get_attribute("data-node")) for node in page.find_all(".canvas .node.path.leaf")]
        assert found == [int(leaves[rows[index]["row"], 0])]
        margin = float(case.model.predict(case.data, output_margin=True)[rows[index]["row"]])
        page.wait("document.querySelector('[data-view=rows] svg text.strong')")
        shown = page.run("return [...document.querySelectorAll('[data-view=rows] svg text.strong')].at(-1).textContent")
        assert float(shown) == pytest.approx(margin, rel=1e-3)


def test_kinds_of_importance_and_targets_can_be_chosen(show):
    case = make_case("multi_target")
    page = show(case.model, case.data)
    kinds = page.find_all("[data-view=importance] .choices button")
    assert [kind.text for kind in kinds][:3] == ["mean |SHAP|", "gain", "total gain"]
    press(page, kinds[1])
    page.wait("document.querySelector('[data-view=importance] svg')?.getAttribute('aria-label') === 'gain'")
    best = max(case.model.get_score(importance_type="gain").items(), key=lambda item: item[1])[0]
    assert page.texts("[data-view=importance] svg text.strong")[0] == best
    assert page.texts("[data-view=quality] .choices button") == ["target 0", "target 1"]
    press(page, page.find_all("[data-view=quality] .choices button")[1])
    page.wait("document.querySelector('[data-view=quality] figure svg')")
    press(page, page.find_all("[data-view=shap] .choices button")[1])
    assert complaints(page) == []


def test_hostile_names_run_nothing(show):
    import pandas as pd

    hostile = '"><img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=100), "kind": pd.Categorical(rng.choice([hostile, "b"], 100))})
    label = np.where((frame.kind == hostile) ^ (rng.random(100) < 0.2), hostile, "no")
    model = arboost.XGBClassifier(n_estimators=2, enable_categorical=True, max_cat_to_onehot=1).fit(frame, label)
    model.get_booster().set_attr(note=hostile)
    model.get_booster().feature_names = ["x", hostile]
    codes = np.column_stack([frame["x"], frame["kind"].cat.codes]).astype(np.float32)
    page = show(model, codes, label, title=hostile)
    assert page.find("h1").text == hostile
    assert page.run("return document.querySelector('.features').textContent").count(hostile) == 1
    page.run("for (const n of document.querySelectorAll('.node, rect')) n.dispatchEvent(new MouseEvent('mousemove'))")
    assert page.run("return window.hacked === undefined && !document.querySelector('img')")
    assert complaints(page) == []


def test_dark_narrow_and_printed(show, browser):
    case = make_case("binary")
    try:
        browser.prefer("dark")
        page = show(case.model, case.data)
        assert page.run("return document.documentElement.dataset.theme") == "dark"
        page.run("document.getElementById('theme').click()")
        assert page.run("return document.documentElement.dataset.theme") == "light"
        for width in (1280, 390):
            page.resize(width, 900)
            assert page.run("return document.documentElement.scrollWidth") <= width
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert page.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
        assert complaints(page) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.resize(1280, 900)
