"""The release: what is built holds what it must, and what is wrong stops it."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

import arboost
from child_process import need

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def release():
    """tools/release.py as a module."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(release, tmp_path_factory):
    """(wheel, sdist), built without a network: the back end is the one installed here."""
    need("build", "hatchling")
    return release.build(tmp_path_factory.mktemp("dist"), isolated=False)


def test_version_is_the_packages(release):
    assert release.read_version() == arboost.__version__


def test_the_changelog_has_this_version(release):
    release.check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), release.read_version())


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("# Changelog\n\n## 1.2.30\n\n- Something.\n", "no entry for 1.2.3"),
        ("## 1.2.3 (not released yet)\n\n- Something.\n", "not released yet"),
        ("## 1.2.3 (today)\n\n## 1.2.2\n\n- Something.\n", "is empty"),
    ],
)
def test_a_changelog_that_is_not_ready_stops_it(release, text, complaint):
    with pytest.raises(SystemExit, match=complaint):
        release.check_changelog(text, "1.2.3")
    release.check_changelog("## 1.2.3 (today)\n\n- Something.\n\n## 1.2.2\n", "1.2.3")


def test_the_wheel_holds_the_package_and_its_data(release, built):
    wheel, sdist = built
    release.check_wheel(wheel)
    release.check_sdist(sdist)
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert {
        "arboost/trace/web/page.html",
        "arboost/trace/web/app.js",
        "arboost/report/assets/page.css",
        "arboost/report/assets/charts.js",
        "arboost/demo/bike_sharing.npz",
        "arboost/py.typed",
    } <= held


def test_the_package_page_is_valid(built):
    need("twine")
    from twine.commands.check import check

    assert check([str(path) for path in built], strict=True) is False


def test_a_wheel_that_lacks_a_file_stops_it(release, built, tmp_path):
    lame = tmp_path / built[0].name
    with zipfile.ZipFile(built[0]) as whole, zipfile.ZipFile(lame, "w") as less:
        for name in whole.namelist():
            if not name.endswith("page.html"):
                less.writestr(name, whole.read(name))
    with pytest.raises(SystemExit, match=r"lacks \['arboost/trace/web/page.html'\]"):
        release.check_wheel(lame)
