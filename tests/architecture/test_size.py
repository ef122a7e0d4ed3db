"""Files and functions stay small enough to read. Comments, docstrings and blank lines are not counted."""

import ast
import io
import tokenize

MAX_FILE, MAX_FUNCTION, MAX_KERNEL = 600, 80, 120
MAX_MODULE_DOCSTRING = 10

_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(tree):
    """Lines taken by docstrings, those of attributes included: any statement that is only a string."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines |= set(range(node.lineno, node.end_lineno + 1))
    return lines


def code_lines(module):
    """Numbers of the lines of a file that hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type not in _NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(module.tree)


def test_counting_leaves_out_comments_and_docstrings(modules):
    module = type(modules[0])(
        modules[0].path,
        "x",
        source
        := '"""Doc\n\nstring."""\n\n# why\nx = [\n    1,  # one\n]\n\n\ndef f():\n    """Doc."""\n    return 1\n',
        ast.parse(source),
    )
    assert sorted(code_lines(module)) == [6, 7, 8, 11, 13]


def test_files_are_small(modules):
    sizes = {module.at(1): len(code_lines(module)) for module in modules}
    wrong = [f"{place}: {size} lines of code, at most {MAX_FILE}" for place, size in sizes.items() if size > MAX_FILE]
    assert not wrong, "\n".join(wrong)


def test_functions_are_small(modules):
    wrong = []
    for module in modules:
        lines = code_lines(module)
        limit = MAX_KERNEL if module.part == "kernels" else MAX_FUNCTION
        for function in module.functions():
            size = len(lines & set(range(function.lineno, function.end_lineno + 1)))
            if size > limit:
                wrong.append(f"{module.at(function)}: {function.name} has {size} lines of code, at most {limit}")
    assert not wrong, "\n".join(wrong)


def test_every_module_says_what_lives_in_it(modules):
    wrong = []
    for module in modules:
        docstring = ast.get_docstring(module.tree)
        if not docstring:
            wrong.append(f"{module.at(1)}: no module docstring")
        elif (size := len(docstring.splitlines())) > MAX_MODULE_DOCSTRING:
            wrong.append(f"{module.at(1)}: module docstring of {size} lines, at most {MAX_MODULE_DOCSTRING}")
    assert not wrong, "\n".join(wrong)
