"""What kernels may look like: ranges of work on arrays and scalars, compiled the same way everywhere."""

import ast

MAX_ARGUMENTS = 12

# Kernels allowed more arguments: "module.function" -> why splitting it would be worse.
MORE_ARGUMENTS: dict[str, str] = {
    "kernels.cpu.model.predict.pack_tree": "a tree's five arrays in, the packed forest's six arrays out",
}

# Kernels, or whole modules of them, whose work is not a range: "module" or "module.function" -> why.
WITHOUT_RANGE: dict[str, str] = {
    "kernels.cpu.data.bundle.find_bundles": "greedy: where a feature goes depends on those before it",
    "kernels.cpu.grow.nodes": "bookkeeping of one node table: microseconds, and each step needs the one before",
    "kernels.cpu.grow.finish": "one small node table",
    "kernels.cpu.grow.level.carry_out": "a team's kernel: it shares out the work of an order by thread number",
    "kernels.cpu.grow.paged.carry_out": "a team's kernel, as level.carry_out",
    "kernels.cpu.grow.whole.grow": "a tree by one thread: each node needs the one above, and trees are shared out",
    "kernels.cpu.grow.whole.sum_nodes": "one node table, from the leaves up",
    "kernels.cpu.sorted.exact.carry_out": "a team's kernel, as level.carry_out",
    "kernels.cpu.sorted.exact.plan_children": "bookkeeping of one node table, as nodes",
    "kernels.cpu.sorted.local_proposals.choose_splits": "bookkeeping of one node table, as nodes",
    "kernels.cpu.sorted.local_proposals.plan_children": "bookkeeping of one node table, as nodes",
    "kernels.cpu.sorted.summary": "one summary at a time; proposals for many features do take a range",
    "kernels.cpu.model.predict.pack_tree": "one tree is packed by one walk from its root",
    "kernels.cpu.model.symmetric.find_conditions": "one tree is looked at by one walk from its root",
}

# Modules besides jit.py that call Numba's compiler: why.
OWN_COMPILATION = {
    "kernels.cpu.round.gradient": "a user's own scalar loss is compiled in memory; a closure cannot be kept on disk",
}

BANNED_NAMES = {
    "prange": "kernels run on our own pool; prange dies in forked children or with two training threads",
    "jitclass": "structs are plain dataclasses of arrays",
}
BANNED_KEYWORDS = {
    "parallel": "kernels run on our own pool",
    "fastmath": "it lets the compiler change the last bit",
}
COMPILERS = {"jit", "njit", "vectorize", "guvectorize", "generated_jit", "cfunc", "stencil"}


def kernels_of(modules, *decorators):
    for module in modules:
        if module.part == "kernels":
            for function in module.decorated(*decorators):
                yield module, function, f"{module.name}.{function.name}"


def arguments_of(function):
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def test_no_numba_threads_and_no_fastmath(modules):
    wrong = []
    for module in modules:
        for node in ast.walk(module.tree):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
            if isinstance(node, ast.Name | ast.Attribute | ast.alias) and name in BANNED_NAMES:
                wrong.append(f"{module.at(node)}: {name}: {BANNED_NAMES[name]}")
            if isinstance(node, ast.keyword) and node.arg in BANNED_KEYWORDS:
                wrong.append(f"{module.at(node.value)}: {node.arg}=: {BANNED_KEYWORDS[node.arg]}")
    assert not wrong, "\n".join(wrong)


def test_only_jit_compiles(modules):
    """Everything else says @kernel, @part or @scalar, so that flags and cache are decided in one place."""
    wrong = []
    for module in modules:
        if module.name == "kernels.jit" or module.name in OWN_COMPILATION:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
                wrong += [f"{module.at(node)}: {alias.name}" for alias in node.names if alias.name in COMPILERS]
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "numba" and node.attr in COMPILERS:
                wrong.append(f"{module.at(node)}: numba.{node.attr}")
    assert not wrong, "\n".join(wrong)


def test_kernels_live_in_kernels(modules):
    """The decorators are used at module level in kernels/ only: closures never hit Numba's disk cache."""
    wrong = []
    for module in modules:
        top_level = set(module.tree.body)
        for function in module.decorated("kernel", "scalar"):
            if module.part != "kernels":
                wrong.append(f"{module.at(function)}: {function.name} is compiled outside kernels/")
            elif function not in top_level:
                wrong.append(f"{module.at(function)}: {function.name} is not at module level")
    assert not wrong, "\n".join(wrong)


def test_kernels_take_a_range_of_work(modules):
    wrong = [
        f"{module.at(function)}: {name}({', '.join(arguments_of(function))}) does not end in start, stop"
        for module, function, name in kernels_of(modules, "kernel")
        if arguments_of(function)[-2:] != ["start", "stop"] and not {name, module.name} & set(WITHOUT_RANGE)
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_take_few_arguments(modules):
    wrong = [
        f"{module.at(function)}: {name} takes {len(arguments_of(function))} arguments, at most {MAX_ARGUMENTS}"
        for module, function, name in kernels_of(modules, "kernel")
        if len(arguments_of(function)) > MAX_ARGUMENTS and name not in MORE_ARGUMENTS
    ]
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_still_needed(modules):
    """An exception that no longer applies, or has no reason, goes."""
    arguments = {name: arguments_of(function) for _, function, name in kernels_of(modules, "kernel")}
    stale = [n for n in MORE_ARGUMENTS if len(arguments.get(n, [])) <= MAX_ARGUMENTS]
    no_range = {name for name, names in arguments.items() if names[-2:] != ["start", "stop"]}
    stale += [n for n in WITHOUT_RANGE if n not in no_range | {name.rpartition(".")[0] for name in no_range}]
    stale += [n for n in OWN_COMPILATION if not any(m.name == n and "njit" in m.source for m in modules)]
    unexplained = [n for n, why in (MORE_ARGUMENTS | WITHOUT_RANGE | OWN_COMPILATION).items() if len(why) < 20]
    assert not stale, f"exceptions without a kernel that needs them: {stale}"
    assert not unexplained, f"exceptions without a reason: {unexplained}"


def test_kernels_have_no_default_or_star_arguments(modules):
    """A default or *args makes one more signature to compile."""
    wrong = [
        f"{module.at(function)}: {name}"
        for module, function, name in kernels_of(modules, "kernel", "scalar")
        if function.args.defaults or function.args.kw_defaults or function.args.vararg or function.args.kwarg
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_never_raise_or_print(modules):
    wrong = []
    for module, function, name in kernels_of(modules, "kernel", "scalar"):
        for node in ast.walk(function):
            if isinstance(node, ast.Raise | ast.Assert | ast.Try):
                wrong.append(f"{module.at(node)}: {name}: {type(node).__name__.lower()}")
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                wrong.append(f"{module.at(node)}: {name}: print")
    assert not wrong, "\n".join(wrong)


def test_kernels_say_what_they_do(modules):
    """A loop around one formula is told by its name; anything longer has a sentence."""
    wrong = [
        f"{module.at(function)}: {name} has no docstring"
        for module, function, name in kernels_of(modules, "kernel")
        if not ast.get_docstring(function) and function.end_lineno - function.lineno > 4
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_know_neither_threads_nor_workers(modules):
    """Whoever calls a kernel shares out its work and adds up what workers have found."""
    wrong = [
        f"{module.at(function)}: {function.name} takes a Context"
        for module in modules
        if module.part == "kernels"
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef) and "ctx" in arguments_of(function)
    ]
    assert not wrong, "\n".join(wrong)
