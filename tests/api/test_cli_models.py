"""`dump`, `plot`, `convert` and `bench` on a small model."""

import json

import numpy as np
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("pyarrow")

import arboost as xgb
from arboost import cli


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((200, 3))
    lines = ["a,b,c,y", *(f"{a},{b},{c},{a + b * c}" for a, b, c in X.tolist())]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    command = ["train", "t.csv", "--target", "y", "--model", "m.json", "-n", "4", "--max-depth", "3", "-q"]
    assert cli.main([*command, "--metrics", "metrics.json"]) == 0
    return xgb.Booster(model_file="m.json")


def output(capsys, *arguments):
    assert cli.main(list(arguments)) == 0
    return capsys.readouterr().out


def test_dump(model, capsys, tmp_path):
    trees = model.get_dump()
    assert output(capsys, "dump", "m.json") == "".join(f"booster[{k}]:\n{tree}" for k, tree in enumerate(trees))
    with_stats = model.get_dump(with_stats=True)
    assert output(capsys, "dump", "m.json", "--tree", "2", "--stats") == f"booster[2]:\n{with_stats[2]}"
    assert len(json.loads(output(capsys, "dump", "m.json", "--format", "json"))) == 4
    assert output(capsys, "dump", "m.json", "--format", "dot", "--tree", "0").startswith("digraph")
    assert output(capsys, "dump", "m.json", "--out", "d.txt") == ""
    assert (tmp_path / "d.txt").read_text().startswith("booster[0]:")


@pytest.mark.parametrize("kind", ["importance", "tree", "metric"])
def test_plot(model, capsys, tmp_path, kind):
    pytest.importorskip("matplotlib")
    output(capsys, "plot", "metrics.json" if kind == "metric" else "m.json", "--kind", kind, "--out", "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_convert(model, tmp_path):
    X = np.random.default_rng(1).standard_normal((20, 3)).astype(np.float32)
    data = xgb.DMatrix(X, feature_names=["a", "b", "c"])
    assert cli.main(["convert", "m.json", "m.ubj"]) == 0
    np.testing.assert_array_equal(xgb.Booster(model_file="m.ubj").predict(data), model.predict(data))
    assert cli.main(["convert", "m.json", "m.py"]) == 0
    space = {}
    exec((tmp_path / "m.py").read_text(), space)
    np.testing.assert_allclose([space["predict"](row) for row in X.tolist()], model.predict(data), rtol=1e-5)


def test_convert_to_onnx(model, tmp_path):
    pytest.importorskip("onnx")
    assert cli.main(["convert", "m.json", "m.onnx"]) == 0
    assert (tmp_path / "m.onnx").stat().st_size > 100


def test_bench_times_and_scores(model, capsys):
    command = [
        "bench",
        "t.csv",
        "--target",
        "y",
        "--rounds",
        "3",
        "--repeats",
        "1",
        "--peers",
        "none",
        "--threads",
        "1",
    ]
    found = json.loads(output(capsys, *command, "--json"))
    assert found["objective"] == "reg:squarederror"
    assert [result["library"] for result in found["results"]] == ["arboost"]
    assert found["results"][0]["ratio"] == 1 and found["results"][0]["score"] > 0
    assert "time / arboost" in output(
        capsys, "bench", "--rows", "500", "--rounds", "2", "--repeats", "1", "--peers", "none"
    )
