"""`clhines plan`."""

import pytest
from commands import TREE_METHODS, index_of, process

from clhines import METHODS
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.solver.plan.methods import OPTION_TEXTS


@pytest.mark.parametrize("method", TREE_METHODS)
def test_plan(cli, swc, method):
    result = cli("plan", swc(), "--cells", 9, "--method", method, "--max-length", 20)
    assert (result.code, result.err) == (0, "")
    table = result.table()
    nodes = 9 * discretise(read_swc(swc()), max_length=20).num_nodes
    assert table["method"] == method
    assert table["cells"] == "9 (1 distinct shapes)"
    assert table["nodes"] == str(nodes)
    assert "kernel" in table


def test_options_of_the_method(cli):
    wanted = ("--option", "split=mean", "--option", "max_cells=2")
    result = cli("plan", "--method", "fine", "--cells", 9, *wanted)
    assert (result.code, result.err) == (0, "")
    assert "split=mean" in result.table()["options"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("split", "option 'split' is not valid; expected NAME=VALUE"),
        ("spilt=mean", "did you mean 'split'?"),
        ("split=men", "split='men' is not valid; expected 'mean' or 'block'"),
        ("max_cells=-1", "max_cells='-1' is not valid; expected a whole number of at least 1"),
        ("switch=4", "option 'switch' is not one of method 'fine'"),
    ],
)
def test_options_that_do_not_fit_are_refused(cli, option, said):
    result = cli("plan", "--method", "fine", "--option", option)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_methods_are_listed_with_their_options(cli):
    result = cli("methods")
    assert (result.code, result.err) == (0, "")
    for name, method in METHODS.items():
        assert f"\n{name}: " in f"\n{result.out}"
        assert all(f"  {option} " in result.out for option in method.options)
    assert "mean, block" in result.out
    assert {o for m in METHODS.values() for o in m.options} == set(OPTION_TEXTS)


def test_plan_for_a_device(cli, every_queue):
    result = cli("plan", "--device", index_of(every_queue), "--dtype", "float32")
    assert (result.code, result.err) == (0, "")
    assert every_queue.device.name.strip()[:40] in result.out


def test_plan_without_opencl(cli, tmp_path):
    """pyopencl is missing: `solve` fails, and `plan` works."""
    code = (
        "import sys; sys.modules['pyopencl'] = None; "
        "from clhines.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["plan", "--cells", 100, "--method", "fine"]
    result = process(*arguments, cwd=tmp_path, python=("-c", code))
    assert (result.code, result.err) == (0, "")
    assert result.out == cli(*arguments).out
    assert process("solve", cwd=tmp_path, python=("-c", code)).code != 0
