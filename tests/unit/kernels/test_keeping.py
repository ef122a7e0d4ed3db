"""Names of device kernels on disk: another one wherever the machine code may be another."""

from types import SimpleNamespace

from arboost.kernels.gpu.keeping import _file_name


def part(function):
    """What a compiler makes of a piece of a kernel: it knows the function."""
    return SimpleNamespace(py_func=function)


def double(x):
    return x + x


def square(x):
    return x * x


def kernel_with(formula, factor=1, capability=(9, 0), **options):
    """The name of a kernel with a part that calls a formula."""

    def piece(x):
        return formula(x) * factor

    inner = part(piece)

    def kernel(x):
        return inner(x)

    return _file_name(SimpleNamespace(py_func=kernel, targetoptions=options), (), capability)


def test_a_name_says_all_that_machine_code_is_made_of():
    names = [
        kernel_with(part(double)), kernel_with(part(square)), kernel_with(part(double), 2),
        kernel_with(part(double), capability=(7, 5)), kernel_with(part(double), max_registers=64),
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert kernel_with(part(double)) == names[0]
    assert names[0].startswith("gpu.test_keeping.kernel-")
