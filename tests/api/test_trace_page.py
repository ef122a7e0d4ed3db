"""The page of a trace in a real browser: it loads alone, steps, follows clicks and sliders, its numbers are right."""

import numpy as np
import pytest

import arboost
from browser import open_browser, serve


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Folder with the page of every example; and the traces."""
    folder = tmp_path_factory.mktemp("pages")
    traces = {name: arboost.trace.example(name) for name in arboost.trace.EXAMPLES}
    for name, trace in traces.items():
        trace.to_html(folder / f"{name}.html")
    return folder, traces


@pytest.fixture
def salary(browser, pages):
    browser.resize(1280, 900)
    browser.open(pages[0] / "salary.html")
    browser.wait("window.trace")
    return pages[1]["salary"]


def numbers(browser, selector):
    """The recorded value behind every number that a selector finds."""
    script = "return [...document.querySelectorAll(arguments[0] + ' .n')].map(e => Number(e.dataset.v))"
    return browser.run(script, selector)


def shown(x):
    return arboost.trace.text.number(x).replace("-", "−")


def step_to(browser, kind, round_index=0, node=None):
    condition = f"s.kind === '{kind}' && s.round === {round_index}" + ("" if node is None else f" && s.node === {node}")
    browser.run(f"trace.go(trace.steps.findIndex(s => {condition}))")


def test_pages_need_nothing_else(browser, pages):
    folder, traces = pages
    with serve(folder) as address:
        for name in traces:
            for page in (folder / f"{name}.html", f"{address}/{name}.html"):
                browser.open(page)
                browser.wait("window.trace")
                browser.press("END")
                assert browser.errors() == []
                assert browser.outside_requests() == []
                assert browser.texts("h1") == [traces[name].title]


def test_every_step_of_every_example_draws(browser, pages):
    folder, traces = pages
    for name in traces:
        browser.open(folder / f"{name}.html")
        browser.wait("window.trace")
        n = browser.run("return trace.steps.length")
        seen = set()
        for _ in range(n - 1):
            browser.press("ARROW_RIGHT")
            seen.add(browser.find("#caption").text)
        assert browser.find("#count").text == f"{n} / {n}"
        assert len(seen) > 4
        assert browser.errors() == []


def test_a_tree_appears_out_of_nothing(browser, salary):
    """Its nodes have been seen by nobody before: none may fade from where a browser draws unstyled shapes, in black."""
    browser.run("trace.go(0)")
    opacities = browser.run(
        "trace.go(1); return [...document.querySelectorAll('#tree .node.hidden')].map(e => getComputedStyle(e).opacity)"
    )
    assert opacities and set(opacities) == {"0"}


def test_stepping(browser, salary):
    assert browser.find("#caption").text == "Every row starts at the same prediction"
    assert browser.find("#back").get_property("disabled")
    browser.press("ARROW_RIGHT")
    assert browser.find("#caption").text == "How wrong is each row?"
    browser.find("#next").click()
    assert browser.find("#caption").text == "Where to split the root?"
    browser.press("ARROW_LEFT")
    assert browser.find("#caption").text == "How wrong is each row?"
    browser.press("END")
    assert browser.find("#caption").text == "3 rounds done"
    assert browser.find("#next").get_property("disabled")
    browser.press("HOME")
    browser.run("const s = document.getElementById('scrub'); s.value = 3; s.dispatchEvent(new Event('input'))")
    assert browser.find("#caption").text == "Split: master's < 0.5"


def test_rows_show_the_engines_numbers(browser, salary):
    tree = salary.rounds[0].trees[0]
    step_to(browser, "residuals")
    assert numbers(browser, "#rows td.residual") == [-g for g in tree.g]
    assert numbers(browser, "#rows td.hessian") == tree.h
    step_to(browser, "update")
    assert numbers(browser, "#rows td.new") == [row[0] for row in salary.rounds[0].prediction]
    assert browser.texts("#rows td.new") == ["67.5", "70", "72.5", "67.5", "72.5"]
    assert browser.texts("#rows td.residual") == ["−17.5", "0", "7.5", "−2.5", "12.5"]


def test_candidates_show_the_engines_numbers(browser, salary):
    for node in salary.rounds[0].trees[0].nodes[:3]:
        step_to(browser, "search", node=node.id)
        expected = [[c.score_left, c.score_right, c.gain] for c in node.candidates]
        assert np.reshape(numbers(browser, "#candidates"), (-1, 3)).tolist() == expected
        assert browser.texts("#candidates td.gain") == [shown(c.gain) for c in node.candidates]
        assert browser.texts("#candidates tr.taken td.gain") == [shown(node.candidates[node.split].gain)]
        assert len(browser.find_all("#chart .candidate")) == len(node.candidates)
    step_to(browser, "search", node=0)
    assert browser.texts("#story .result") == ["364.58"]


def test_a_node_shows_its_rows_and_candidates(browser, salary):
    step_to(browser, "outputs")
    for node in salary.rounds[0].trees[0].nodes[:3]:
        browser.find(f'#tree [data-node="{node.id}"]').click()
        inside = [int(row.get_attribute("data-row")) for row in browser.find_all("#rows tr.inside")]
        assert inside == node.rows
        assert len(browser.find_all("#candidates tr[data-candidate]")) == len(node.candidates)
    browser.press("ESCAPE")
    assert browser.find_all("#rows tr.inside") == []
    browser.run("document.querySelector('#tree [data-node=\"2\"]').focus()")
    browser.press("ENTER")
    assert browser.find("#caption").text == "Node 2"


def test_another_candidate_is_worked_out(browser, salary):
    step_to(browser, "search", node=0)
    browser.find('#candidates tr[data-candidate="0"]').click()
    c = salary.rounds[0].trees[0].nodes[0].candidates[0]
    assert browser.texts("#story .question") == ["age < 23.5"]
    assert browser.texts("#story .result") == [shown(c.gain)] == ["280"]
    sides = [row.get_attribute("class").split()[-1] for row in browser.find_all("#rows tr.inside")]
    assert sides == ["left", "right", "right", "right", "right"]


def test_pruning_is_told_and_seen(browser, salary):
    step_to(browser, "prune", node=1)
    assert browser.find("#caption").text == "Taken back: age < 24.5"
    assert browser.texts("#story > .verdict") == ["gain 4.1667 < γ 50"]
    states = {id: browser.find(f'#tree [data-node="{id}"]').get_attribute("class") for id in range(7)}
    assert "gone" in states[3]
    assert "gone" in states[4]
    assert "leaf" in states[1]
    assert "split" in states[2]


def slide(browser, word, index):
    browser.run(
        "const s = document.getElementById('slide-' + arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        word,
        index,
    )


def test_sliders_show_other_trainings(browser, salary):
    """Each stop shows what a training with those parameters gives."""
    stops = browser.run("return trace.data.axes")
    step_to(browser, "end", 2)
    base = {"tree_method": "exact", "max_depth": 2, "min_child_weight": 0}
    data = salary.to_dict()
    matrix = arboost.DMatrix(data["X"], np.ravel(data["y"]))
    place = {"lambda": 1, "gamma": 1, "eta": 1}
    for word, index in (("lambda", 3), ("gamma", 0), ("eta", 3), ("gamma", 3)):
        slide(browser, word, index)
        place[word] = index
        chosen = {"lambda": stops["reg_lambda"][place["lambda"]], "gamma": stops["gamma"][place["gamma"]]}
        chosen["eta"] = stops["eta"][place["eta"]]
        model = arboost.train({**base, **chosen}, matrix, 3)
        assert browser.find("#caption").text == "3 rounds done"
        assert numbers(browser, "#rows td.new") == model.predict(matrix).tolist()
        assert browser.find(f"#value-{word}").text == shown(chosen[word])
    assert browser.errors() == []


def test_arrow_keys_on_a_slider_move_the_slider(browser, salary):
    browser.run("document.getElementById('slide-gamma').focus()")
    browser.press("ARROW_LEFT")
    assert browser.find("#value-gamma").text == "0"
    assert browser.run("return trace.step") == 0


def test_missing_rows_and_log_odds(browser, pages):
    folder, traces = pages
    browser.open(folder / "missing.html")
    browser.wait("window.trace")
    step_to(browser, "split", node=0)
    assert "missing" in browser.texts("#tree .edge.left text")[0]
    root = traces["missing"].rounds[0].trees[0].nodes[0]
    assert browser.texts("#candidates tr.taken td.gain") == [shown(root.candidates[root.split].gain)]
    browser.open(folder / "dosage.html")
    browser.wait("window.trace")
    step_to(browser, "update")
    margins = [row[0] for row in traces["dosage"].rounds[0].margin]
    probabilities = [row[0] for row in traces["dosage"].rounds[0].prediction]
    assert numbers(browser, "#rows td.new") == np.ravel(np.transpose([margins, probabilities])).tolist()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_does_not_scroll_sideways(browser, salary, scheme):
    browser.prefer(scheme)
    browser.resize(390, 844)
    for kind in ("search", "outputs", "update"):
        step_to(browser, kind)
        assert browser.run("return document.documentElement.scrollWidth") <= 390
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.find("#theme").click()
    assert browser.run("return getComputedStyle(document.body).backgroundColor") != background
    browser.prefer("light")
    browser.resize(1280, 900)


def test_a_step_on_paper_is_whole_and_light(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    arboost.trace(X, X[:, 0] > 0, {"objective": "binary:logistic"}, 1).to_html(tmp_path / "many.html")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.resize(760, 1000)
    try:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.open(tmp_path / "many.html")
        browser.wait("window.trace")
        step_to(browser, "search", node=0)
        cut = browser.run(
            "return [...document.querySelectorAll('.scroll')].filter(e => getComputedStyle(e).overflowY !== 'visible' "
            "|| e.scrollWidth > e.clientWidth + 1).map(e => e.parentElement.className)"
        )
        assert cut == []
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not browser.find("#next").is_displayed()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_classes_and_many_rows(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 7)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] + X[:, 1]).round().clip(-1, 1) + 1
    params = {"objective": "multi:softprob", "num_class": 3}
    names = {0.0: "<b>zero</b>"}
    trace = arboost.trace(
        X, y, params, 1, target_name="<b>class</b>", title="<b>Classes</b>", value_names={"f0": names}
    )
    trace.to_html(tmp_path / "classes.html")
    browser.open(tmp_path / "classes.html")
    browser.wait("window.trace")
    for _ in range(browser.run("return trace.steps.length") - 1):
        browser.run("trace.go(trace.step + 1)")
    assert browser.errors() == []
    assert browser.texts("h1") == ["<b>Classes</b>"]
    assert browser.texts("#rows th.label") == ["<b>class</b>"]
    step_to(browser, "update")
    browser.screenshot(tmp_path / "classes.png")
    assert (tmp_path / "classes.png").stat().st_size > 10_000  # something is drawn
    assert "… 180 more rows" in browser.find("#rows tfoot").text
