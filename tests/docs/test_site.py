"""The documentation site builds without a warning, its links lead somewhere, and it needs no network."""

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import arboost
from child_process import need

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    need("mkdocs", "material", "mkdocstrings_handlers.python")
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr
    return folder


class _Page(HTMLParser):
    """What a page points to, what it loads, and the anchors it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon", "preconnect"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: _Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_internal_links_lead_somewhere(site, pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: {link}")
            elif where.fragment and target in pages and unquote(where.fragment) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(site)}: no such anchor: {link}")
    assert not wrong, "\n".join(wrong)


def test_nothing_comes_from_elsewhere(site, pages):
    outside = [f"{p.relative_to(site)}: {u}" for p, page in pages.items() for u in page.loads if urlsplit(u).netloc]
    outside += [
        f"{path.relative_to(site)}: {found}"
        for path in site.rglob("*.css")
        for found in re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']+", path.read_text(encoding="utf-8"))
    ]
    assert not outside, "\n".join(outside)


def test_every_page_of_the_folder_is_there(site):
    built = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert written <= built


def test_the_reference_shows_the_public_names(site):
    need("sklearn", "matplotlib")
    shown = set(re.findall(r'id="arboost[\w.]*\.(\w+)"', (site / "api.html").read_text(encoding="utf-8")))
    public = {
        name
        for name in arboost.__all__
        if inspect.isclass(found := getattr(arboost, name)) or inspect.isfunction(found)
    }
    assert len(public) > 15 and public <= shown, public - shown


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not urlsplit(link).scheme]
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
