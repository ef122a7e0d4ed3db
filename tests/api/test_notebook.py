"""A real notebook kernel: cards as HTML, a progress bar that renews itself, and silence where it was asked for."""

import pytest

CELLS = (
    """
import numpy as np
import arboost
from arboost.callback import ProgressBar
X = np.random.default_rng(0).normal(size=(50, 3))
data = arboost.DMatrix(X, X[:, 0])
data
""",
    """
booster = arboost.train({"max_depth": 2}, data, 5, evals=[(data, "t<b>")], verbose_eval=False,
                        callbacks=[ProgressBar(interval=0)])
""",
    "booster",
    """
arboost.train({"verbosity": 0}, data, 5, evals=[(data, "t")], callbacks=[ProgressBar(interval=0)]);
model = arboost.XGBRegressor(n_estimators=2, verbosity=0).fit(X, X[:, 0], eval_set=[(X, X[:, 0])])
""",
    "model",
)


@pytest.fixture(scope="module")
def outputs():
    """What each cell shows."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel (pip install arboost[dev])")
    client = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel (pip install arboost[dev])")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel (pip install arboost[dev])")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS], metadata=kernel)
    client.NotebookClient(notebook, timeout=300).execute()
    return [cell.outputs for cell in notebook.cells]


def html_of(shown):
    return [output.data["text/html"] for output in shown if "data" in output]


def test_objects_are_cards(outputs):
    (matrix,) = html_of(outputs[0])
    assert "arboost-card" in matrix and "50 rows x 3 features" in matrix
    (booster,) = html_of(outputs[2])
    assert "arboost-card" in booster and "reg:squarederror" in booster
    (model,) = html_of(outputs[4])
    assert "arboost-card" in model and "sk-container" in model


def test_progress_is_one_output_that_was_renewed(outputs):
    notices = "compiling kernels"  # the first training on a machine says so
    (bar,) = html_of(outputs[1])
    assert "arboost-progress" in bar and "5/5" in bar
    assert "t&lt;b&gt;-rmse" in bar and "t<b>" not in bar
    assert all(notices in output.text for output in outputs[1] if output.output_type == "stream")


def test_silent_cells_show_nothing(outputs):
    assert outputs[3] == []
