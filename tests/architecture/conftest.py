"""The package's source, parsed once, for tests that read it."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "arboost"


@dataclass(frozen=True)
class Module:
    """One source file: `name` is dotted without the package ("tree.grow"), `part` its first step ("tree")."""

    path: Path
    name: str
    source: str
    tree: ast.Module

    @property
    def part(self) -> str:
        return self.name.split(".")[0]

    def at(self, node: ast.AST | int) -> str:
        """A clickable place: file and line."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path.relative_to(ROOT).as_posix()}:{line}"

    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones included."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    def decorated(self, *decorators: str) -> list[ast.FunctionDef]:
        """Functions marked @name, or @name(...), with one of these names."""
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef) and decorators_of(node) & set(decorators)
        ]


def decorators_of(function: ast.FunctionDef) -> set[str]:
    """The last names of a function's decorators: {"kernel"} for @jit.kernel(...)."""
    names = set()
    for node in function.decorator_list:
        node = node.func if isinstance(node, ast.Call) else node
        names.add(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", ""))
    return names


def _read(path: Path) -> Module:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    source = path.read_text(encoding="utf-8")
    return Module(path, name, source, ast.parse(source, str(path)))


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every file of the package, in order of its path."""
    return [_read(path) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT
