"""Which way the doors open: a part imports only parts to its left, and each outside package has its rooms."""

import ast
import sys

import pytest

# From left to right. Parts on one floor of the engine do not know each other; on the face they do.
FLOORS = [
    {"kernels"},
    {"runtime"},
    {"params"},
    {"matrix"},
    {"levels"},
    {"tree", "losses", "metrics"},
    {"predict", "modelio"},
    {"boosters"},
    {
        "version",
        "config",
        "compat",
        "core",
        "data",
        "collective",
        "objective",
        "model_config",
        "introspect",
        "cards",
        "progress",
        "booster",
        "assemble",
        "concat",
        "streams",
        "training",
        "callback",
        "libpath",
        "tracker",
        "_typing",
    },
    {
        "sklearn",
        "_sklearn_fit",
        "_sklearn_docs",
        "survival",
        "ensemble",
        "convert",
        "dask",
        "plotting",
        "interpret",
        "trace",
        "report",
        "demo",
        "as_xgboost",
        "_xgboost_path",
        "cli",
        "warmup",
        "__main__",
    },
]
FIRST_FACE_FLOOR = 8
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}

# Outside packages -> the parts (dotted prefixes) that may import them. What is not listed may be imported nowhere.
ROOMS = {
    "numpy": [""],
    "scipy": [""],
    "numba": ["kernels"],
    "llvmlite": ["kernels"],
    "pandas": ["compat", "training", "introspect", "matrix.frames"],  # cv() and tables return frames
    "pyarrow": ["compat", "matrix.frames", "matrix.parquet", "cli"],
    "polars": ["compat", "matrix.frames"],
    "narwhals": ["matrix.frames"],
    "onnx": ["modelio.onnx"],
    "lz4": ["matrix.codec"],
    "cuda": ["kernels.gpu"],  # comes with numba-cuda
    "cupy": ["compat", "matrix.on_device"],
    "sklearn": ["compat", "sklearn", "ensemble"],
    "matplotlib": ["compat", "plotting", "cli.drawing"],
    "graphviz": ["compat", "plotting"],
    "IPython": ["progress"],
    "click": ["cli"],
    "rich": ["cli", "progress", "trace"],
    "rich_click": ["cli"],
    "dask": ["dask"],
    "distributed": ["dask"],
    "cloudpickle": ["dask"],  # comes with dask
    "mpi4py": ["runtime.mpi"],
}
CUDA_ROOM = "kernels.gpu"


def imports_of(module):
    """(node, absolute dotted name) of everything a module imports, at the top or inside a function.

    `from a import b` gives "a.b"; importlib.import_module("a.b") with a literal name counts too.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["arboost", *module.name.split(".")] if module.name else ["arboost"]
                if module.path.name != "__init__.py":
                    package = package[:-1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((node, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) == "import_module" and isinstance(node.args[0], ast.Constant):
            yield node, str(node.args[0].value)


def called(node):
    """The last name of what a call calls."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def inside(name, prefix):
    return not prefix or name == prefix or name.startswith(prefix + ".")


def test_every_part_has_a_floor(modules):
    unknown = {m.part: m.at(1) for m in modules if m.name and m.part not in FLOOR_OF}
    assert not unknown, f"parts without a floor in FLOORS: {unknown}"


def test_imports_go_left(modules):
    wrong = []
    for module in modules:
        own = FLOOR_OF.get(module.part)
        if own is None:  # the package's own __init__, which shows what all floors offer
            continue
        for node, name in imports_of(module):
            part = name.split(".")[1] if name.startswith("arboost.") else None
            if part is None or part == module.part or part not in FLOOR_OF:
                continue
            floor = FLOOR_OF[part]
            if floor > own:
                wrong.append(f"{module.at(node)}: {module.part} (floor {own}) imports {part} (floor {floor})")
            elif floor == own and own < FIRST_FACE_FLOOR:
                wrong.append(f"{module.at(node)}: {module.part} and {part} share a floor and must not know each other")
    assert not wrong, "\n".join(wrong)


def test_engine_does_not_import_the_package_itself(modules):
    """`from arboost import x` inside the engine would go through the face."""
    wrong = [
        f"{module.at(node)}: {name}"
        for module in modules
        if module.name and FLOOR_OF.get(module.part, 99) < FIRST_FACE_FLOOR
        for node, name in imports_of(module)
        if name == "arboost" or (name.startswith("arboost.") and name.split(".")[1] not in FLOOR_OF)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_outside_package_stays_in_its_rooms(modules, package):
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if not module.name.startswith("demo")  # the demo compares with other libraries
        if not any(inside(module.name, room) for room in ROOMS[package])
        for node, name in imports_of(module)
        if inside(name, package)
    ]
    assert not wrong, f"{package} belongs in {ROOMS[package]}:\n" + "\n".join(wrong)


def test_no_other_outside_package(modules):
    known = sys.stdlib_module_names | set(ROOMS) | {"arboost"}
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if not module.name.startswith("demo")
        for node, name in imports_of(module)
        if name.split(".")[0] not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_cuda_only_in_its_room(modules):
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if not inside(module.name, CUDA_ROOM)
        for node, name in imports_of(module)
        if "cuda" in name.split(".")
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_of_the_cpu_know_no_device(modules):
    """Their cache on disk is stamped with what they can be made of, which leaves a device's kernels out."""
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if inside(module.name, "kernels") and not inside(module.name, CUDA_ROOM)
        for node, name in imports_of(module)
        if inside(name, f"arboost.{CUDA_ROOM}")
    ]
    assert not wrong, "\n".join(wrong)


BLIND = {"matrix", "tree", "losses", "metrics", "predict", "boosters"}
# Who asks all the same where work is done, and why; docs/architecture.md names the same.
ASKS_FOR_DEVICE = {
    "matrix.device": "makes bins on a device, or leaves it to the CPU",
    "matrix.on_device": "its data lies on a device",
    "predict.forest": "a device walks the trees, where there is enough to do",
    "predict.shap": "a device explains, where there is enough to do",
    "boosters.trainers": "a training's margins live on the device, or on the host",
}
ASKS_FOR_WORKERS = {
    "matrix.agreement": "one worker has nobody to agree with",
    "matrix.device": "workers make their cuts together, on the CPU",
    "losses.quantile": "several workers count leaf quantiles, one selects them in less time: the same values",
    "boosters.gbtree": "sorted columns hold the rows of one machine",
    "boosters.learner": "one worker has nobody to agree with",
}


def test_engine_branches_on_neither_device_nor_workers(modules):
    """Orchestration calls ops and ctx.comm, whatever they are; only runtime and kernels look behind them."""
    asking = {"device": set(), "workers": set()}
    wrong = []
    for module in modules:
        if module.part not in BLIND:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "device_of":
                asking["device"].add(module.name)
            if not isinstance(node, ast.Compare | ast.If | ast.IfExp | ast.BoolOp):
                continue
            test = node.test if isinstance(node, ast.If | ast.IfExp) else node
            seen = {leaf.attr for leaf in ast.walk(test) if isinstance(leaf, ast.Attribute)}
            asking["device"] |= {module.name} if "is_on_cpu" in seen else set()
            asking["workers"] |= {module.name} if "is_alone" in seen else set()
            seen &= {"device", "world_size", "rank"}
            if seen - ({"device"} if module.name in ASKS_FOR_DEVICE else set()):
                wrong.append(f"{module.at(node)}: branches on {', '.join(sorted(seen))}")
    assert not wrong, "\n".join(wrong)
    assert asking["device"] == set(ASKS_FOR_DEVICE)
    assert asking["workers"] == set(ASKS_FOR_WORKERS)


def test_one_growth_loop(modules):
    """Policies, pages, workers and devices all go through one loop: whoever opens nodes, again and again, is it."""
    found = [
        f"{module.name}.{function.name}"
        for module in modules
        if module.part in ("tree", "levels", "boosters", "ensemble", "trace")
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef)
        for loop in ast.walk(function)
        if isinstance(loop, ast.While | ast.For)
        for call in ast.walk(loop)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "open"
    ]
    assert found == ["tree.grow.grow"], found


def test_the_loop_imports_no_kernel(modules):
    """What is above the level engines knows nothing of how they do it."""
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if module.name in ("tree.grow", "tree.growers", "tree.driver", "tree.features")
        for node, name in imports_of(module)
        if inside(name, "arboost.kernels")
    ]
    assert not wrong, "\n".join(wrong)


def test_back_ends_belong_to_the_engines(modules):
    """Who is neither a kernel nor a level engine asks `kernels.ops` for what it wants done."""
    wrong = [
        f"{module.at(node)}: imports {name}"
        for module in modules
        if module.part not in ("kernels", "levels")
        for node, name in imports_of(module)
        if inside(name, "arboost.kernels.cpu")
    ]
    assert not wrong, "\n".join(wrong)
