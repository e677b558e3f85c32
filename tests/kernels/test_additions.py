"""In a copy of the checkout, `new_method.py` makes a method, and one text adds a mechanism."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from processes import output_of, run_python

import clhines
from clhines.solver.plan.templates import FOLDER

TESTS = Path(__file__).parents[1]
SOLVE = """
import runpy
import numpy as np
from systems import dissimilar, make_system
import clhines
from clhines import Forest, PivotError, Solver
from clhines.solver.device import devices
assert clhines.__file__.startswith(COPY), clhines.__file__
test = runpy.run_path("tests/solver/plan/by_cell/test_toy.py")
test["test_example_by_hand_of_toy"]()
queue = devices.make_queue(next(d for _, d in devices.all_devices() if str(d.name) == DEVICE))
forest = Forest.from_parents(dissimilar(12))
for symmetric in (True, False):
    for rows in (None, 2):
        system = make_system(forest, np.float32, symmetric, rows)
        system.assert_solved(Solver(forest, "toy", np.float32, queue=queue).solve(**system.arrays))
system = make_system(forest, np.float32)
system.d[forest.cell_offsets[3]] = -1
try:
    Solver(forest, "toy", np.float32, queue=queue).solve(**system.arrays)
except PivotError as error:
    assert "cell 3" in str(error), error
    print("solved")
"""
TEXT = '''
BUILT_IN["leak_of_a_test"] = """
    density leak_of_a_test
    parameter g = 0.002 S/cm2
    current i = g*(v + 60) [mA/cm2]
"""
'''
SIMULATE = """
import numpy as np
import clhines
from clhines import Network, Simulation
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.synthetic import ring_cell
from clhines.solver.device import devices
assert clhines.__file__.startswith(COPY), clhines.__file__
queue = devices.make_queue(next(d for _, d in devices.all_devices() if str(d.name) == DEVICE))
found = []
for name, parameters in (("leak_of_a_test", {}), ("pas", {"g": 0.002, "e": -60.0})):
    net = Network([discretise(ring_cell(2, 0.5, 3, seed=1), max_length=90.0)], 3)
    net.insert(name, "all", **parameters)
    sim = Simulation(net, 0.025, "float32", queue=queue)
    sim.run(2.0)
    found.append(sim.voltages())
assert np.abs(found[0] + 65).max() > 1, "nothing has moved"
np.testing.assert_allclose(found[0], found[1], atol=1e-3)   # mV; both in float32
print("simulated")
"""


@pytest.fixture
def copy(tmp_path):
    """Copy the files that a method needs; nothing of them is installed."""
    ignored = shutil.ignore_patterns("kernels", "__pycache__")
    shutil.copytree(Path(clhines.__file__).parent, tmp_path / "clhines", ignore=ignored)
    shutil.copytree(FOLDER, tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for path in ("docs/reference", "tests/solver/plan/by_cell"):
        (tmp_path / path).mkdir(parents=True)
    page = TESTS.parent / "docs" / "reference" / "methods.md"
    if not page.is_file():
        pytest.skip("no docs here")
    shutil.copy(page, tmp_path / "docs" / "reference")
    return tmp_path


def new_method(copy, *words):
    """Run the script that makes a method; return its result."""
    script = TESTS / "support" / "new_method.py"
    return run_python(script, *words, "--root", copy)


def texts(copy):
    return {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def run(copy, program, queue):
    support = TESTS / "support"
    head = f"COPY, DEVICE = {str(copy)!r}, {str(queue.device.name)!r}\n"
    path = os.pathsep.join([str(copy), str(support)])
    path = os.pathsep.join([path, *sys.path[1:]])
    return output_of("-c", head + program, cwd=copy, timeout=300, PYTHONPATH=path).split()[-1]


def append(path, text):
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def test_a_new_method_solves_as_it_is_made(copy, fast_queue):
    before = texts(copy)
    done = new_method(copy, "toy")
    assert done.returncode == 0, done.stderr
    made = [line for line in done.stdout.splitlines() if (copy / line.strip()).is_file()]
    changed = [path for path, text in texts(copy).items() if before.get(path) != text]
    assert sorted(copy / line for line in made) == sorted(changed) and len(changed) == 5
    assert run(copy, SOLVE, fast_queue) == "solved"


@pytest.mark.parametrize("name", ["flat", "cell", "auto", "Toy", "lambda", "../toy"])
def test_a_new_method_needs_a_new_name(copy, name):
    before = texts(copy)
    done = new_method(copy, name)
    assert done.returncode and f"name is {name!r}" in done.stderr, done.stderr
    assert texts(copy) == before


def test_a_mechanism_is_one_text(copy, fast_queue):
    append(copy / "clhines/simulator/mechanisms/builtin.py", TEXT)
    assert run(copy, SIMULATE, fast_queue) == "simulated"
