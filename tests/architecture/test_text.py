"""What must not be left lying about in any file of the repository."""

import ast
import re
import subprocess

import pytest

TEXT = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".cfg", ""}
LOOSE_ENDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.~/])/(home|root|work|Users|opt|mnt)/\w|[A-Z]:\\\\Users")
VAGUE_FILES = {"utils.py", "util.py", "common.py", "helpers.py", "misc.py"}
VAGUE_CLASSES = re.compile(r"(Manager|Handler|Utils?|Helper)$")


@pytest.fixture(scope="module")
def files(root):
    """Text files of the repository: those git knows or would add; every file of the tree where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [root / line for line in listing.stdout.splitlines()]
    else:
        paths = [p for folder in ("src", "tests", "benchmarks", "docs") for p in (root / folder).rglob("*")]
    return [path for path in paths if path.suffix in TEXT and path.is_file() and path.name != "LICENSE"]


def lines_matching(files, root, pattern):
    return [
        f"{path.relative_to(root).as_posix()}:{number}: {line.strip()[:100]}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_loose_ends(files, root):
    found = lines_matching(files, root, LOOSE_ENDS)
    assert not found, "\n".join(found)


def test_no_paths_of_one_machine(files, root):
    found = lines_matching(files, root, MACHINE_PATHS)
    assert not found, "\n".join(found)


def test_files_that_pages_name_are_there(root):
    """A path in code marks is one of the repository, of the package, or of a part that the page has just named."""
    there = {path.relative_to(root).as_posix() for path in root.glob("*/**/*.py")}
    wrong = []
    for page in ("architecture", "determinism", "contributing", "cache"):
        text = (root / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for name in re.findall(r"`([\w/]+\.py)`", text):
            if not any(path == name or path.endswith("/" + name) for path in there):
                wrong.append(f"docs/{page}.md: {name}")
    assert not wrong, "\n".join(wrong)


def test_no_drawers_for_everything(files, root):
    found = [path.relative_to(root).as_posix() for path in files if path.name in VAGUE_FILES]
    assert not found, f"name the subject instead: {found}"


def test_classes_are_named_for_what_they_are(modules):
    found = [
        f"{module.at(node)}: {node.name}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and VAGUE_CLASSES.search(node.name)
    ]
    assert not found, "\n".join(found)


def test_no_swallowed_errors(modules):
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler):
                kind = getattr(node.type, "id", None)
                if kind in (None, "Exception", "BaseException") and all(isinstance(s, ast.Pass) for s in node.body):
                    found.append(f"{module.at(node)}: except {kind or ''}: pass")
    assert not found, "\n".join(found)


def test_engine_speaks_with_one_voice(modules):
    """Only the face prints, and for the engine `runtime/settings.py`, which asks `verbosity` first."""
    quiet = {"kernels", "runtime", "params", "matrix", "tree", "losses", "metrics", "predict", "modelio", "boosters"}
    found = [
        module.at(node)
        for module in modules
        if module.part in quiet and module.name != "runtime.settings"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert not found, "\n".join(found)
