"""Model files on disk."""

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import arboost.modelio
from arboost.modelio import files
from arboost.modelio.files import load_bytes, load_path, save_bytes, save_path
from arboost.runtime.errors import ModelFileError, XGBoostError
from naive_modelio import gbtree_cases


@pytest.fixture
def model():
    return load_bytes(gbtree_cases()["binary"].raw("ubj"))


@pytest.mark.parametrize(("name", "format"), [("m.json", "json"), ("m.JSON", "json"), ("m.ubj", "ubj")])
def test_the_extension_chooses_the_format(tmp_path, model, name, format):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_path(model, tmp_path / name)
    assert (tmp_path / name).read_bytes() == save_bytes(model, format)
    assert save_bytes(load_path(str(tmp_path / name))) == save_bytes(model)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["m.model", "m", "m.json.bak"])
def test_other_extensions_mean_ubjson_with_a_warning(tmp_path, model, name):
    with pytest.warns(UserWarning, match="UBJSON format as default"):
        save_path(model, tmp_path / name)
    assert (tmp_path / name).read_bytes() == save_bytes(model, "ubj")
    load_path(tmp_path / name)


def test_unknown_formats(model):
    with pytest.raises(XGBoostError, match="Unknown model format: `deprecated`"):
        save_bytes(model, "deprecated")


def test_buffers_of_every_kind(model):
    for format in ("json", "ubj"):
        data = save_bytes(model, format)
        assert isinstance(data, bytearray)
        for buffer in (data, bytes(data), memoryview(data)):
            assert save_bytes(load_bytes(buffer), format) == data


def test_json_may_be_indented(model):
    data = bytes(save_bytes(model, "json"))
    assert (
        save_bytes(load_bytes(b"\n \t" + data.replace(b"{", b"{\n  ").replace(b",", b",\r\n") + b"\n"), "json") == data
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"binf\0\0\0\0", "binary format of XGBoost"),
        (b"\x80\x04\x95", "Not a JSON or UBJSON model"),
        (b"[1]", "Not a JSON or UBJSON model"),
        (b" {L", "Not a JSON or UBJSON model"),
        (b"{}", "learner: the field is missing"),
        (b"{", "not valid JSON"),
        (b'{"learner": 3}', "learner: expected an object, found an integer"),
        (b"{L\0", "truncated"),
    ],
)
def test_what_is_not_a_model(data, problem):
    with pytest.raises(ModelFileError, match=problem):
        load_bytes(data)


def test_missing_files(tmp_path, model):
    with pytest.raises(ModelFileError, match=r"none\.json failed: No such file"):
        load_path(tmp_path / "none.json")
    with pytest.raises(ModelFileError, match="failed"):
        load_path(tmp_path)
    with pytest.raises(XGBoostError, match="for writing failed"):
        save_path(model, tmp_path / "no" / "m.json")


def test_home_directory(tmp_path, model, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_path(model, "~/m.ubj")
    assert save_bytes(load_path("~/m.ubj")) == (tmp_path / "m.ubj").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path, model, monkeypatch):
    path = tmp_path / "m.json"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(XGBoostError, match="No space left"):
        save_path(model, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.json"]


@pytest.mark.skipif(os.name != "posix", reason="file modes and links of POSIX")
def test_modes_links_and_devices(tmp_path, model):
    path, link = tmp_path / "m.json", tmp_path / "link.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    save_path(model, link)
    assert link.is_symlink()
    assert path.read_bytes() == save_bytes(model, "json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.warns(UserWarning):
        save_path(model, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_loading_imports_no_compiler(tmp_path, model):
    """The package's face may import what it likes: it is replaced by an empty one here."""
    save_path(model, tmp_path / "m.ubj")
    root = Path(arboost.modelio.__file__).parents[1]
    code = f"""
import sys, types
face = types.ModuleType("arboost")
face.__path__ = [{str(root)!r}]
sys.modules["arboost"] = face
from arboost.modelio.files import load_path, save_bytes
from arboost.modelio.dump import dump_tree
model = load_path({str(tmp_path / "m.ubj")!r})
save_bytes(model, "json")
dump_tree(model.trees[0])
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
