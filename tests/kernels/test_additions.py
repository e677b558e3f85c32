"""A method is one template, one module and one row; a mechanism is one text: in a copy of both."""

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import clhines

TEMPLATE = """<%page args="spec"/>\\
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
typedef ${spec.real} real;
// One work-item a cell, whose nodes stand parents first.
__kernel void solve(${signature(spec)})
{
    const int cell = get_global_id(0), start = cell_start[cell], end = start + cell_size[cell];
    const long row = (long)first_row * num_values;
    int bad = 0;
    for (int i = start; i < end; ++i) { factor[i] = d[i]; x[row + i] = b[row + i]; }
    for (int i = end - 1; i >= start; --i) {
        const int parent = start + node_parent[i];
        if (!(factor[i] > 0 && factor[i] < INFINITY) && !bad) bad = i - start + 1;
        if (i == start) continue;
        factor[parent] -= u[i] * ${"l" if spec.unsymmetric else "u"}[i] / factor[i];
        x[row + parent] -= u[i] * x[row + i] / factor[i];
    }
    for (int i = start; i < end; ++i) {
        const real above = i > start ? x[row + start + node_parent[i]] : (real)0;
        const real low = i > start ? ${"l" if spec.unsymmetric else "u"}[i] : (real)0;
        x[row + i] = (x[row + i] - low * above) / factor[i];
    }
    status[cell_number[cell]] = bad;
}
"""
MODULE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.arrays import ranges
from clhines.plan.kernel_spec import KernelSpec
from clhines.plan.plan import Part, Plan, as_int32


@dataclass(frozen=True)
class ToySpec(KernelSpec):
    template: ClassVar = "by_cell/toy"
    tables: ClassVar = ("cell_start:place", "cell_size", "cell_number:cell", "node_parent:in_order")
    first_argument: ClassVar = "num_cells"


def plan_toy(forest, method, real, limits, options):
    trees, shape = forest.trees, forest.shape_of_cell
    begin = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[trees.order]
    parent = np.where(above < 0, 0, trees.rank[above] - begin)
    nodes = ranges(trees.offsets[shape], forest.sizes)
    gather = (trees.order - begin)[nodes] + np.repeat(forest.cell_offsets[:-1], forest.sizes)
    tables = {
        "cell_start": forest.cell_offsets[:-1], "cell_size": forest.sizes,
        "cell_number": np.arange(forest.num_cells), "node_parent": parent[nodes],
    }
    count = forest.num_cells
    part = Part(ToySpec(real, True, 1, 1), as_int32(tables, len(gather)), count, count, max_rhs=1)
    return Plan(forest, method, gather.astype(np.int32), (part,))
"""
ROW = """
from clhines.plan.by_cell.toy import plan_toy
METHODS["toy"] = Method("one work-item a cell", "this test", plan_toy, {})
"""
SOLVE = """
import numpy as np
from systems import dissimilar, make_system
import clhines
from clhines import Forest, PivotError, Solver
from clhines.device import devices
assert clhines.__file__.startswith(COPY), clhines.__file__
queue = devices.make_queue(next(d for _, d in devices.all_devices() if str(d.name) == DEVICE))
forest = Forest.from_cells(dissimilar(12))
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
from clhines.cells.cable import discretise
from clhines.cells.synthetic import ring_cell
from clhines.device import devices
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
    """A copy of the package and its templates; nothing of it is installed."""
    ignored = shutil.ignore_patterns("kernels", "__pycache__")
    shutil.copytree(Path(clhines.__file__).parent, tmp_path / "clhines", ignore=ignored)
    folder = Path(str(files("clhines.kernels"))).resolve()
    shutil.copytree(folder, tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(copy, program, queue):
    support = Path(__file__).parents[1] / "support"
    head = f"COPY, DEVICE = {str(copy)!r}, {str(queue.device.name)!r}\n"
    path = os.pathsep.join([str(copy), str(support)])
    done = subprocess.run(
        [sys.executable, "-c", head + program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([path, *sys.path[1:]])},
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()[-1]


def append(path, text):
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def test_a_method_is_one_template_one_module_and_one_row(copy, fast_queue):
    (copy / "kernels" / "by_cell" / "toy.mako").write_text(TEMPLATE, "utf-8")
    (copy / "clhines" / "plan" / "by_cell" / "toy.py").write_text(MODULE, "utf-8")
    append(copy / "clhines" / "plan" / "methods.py", ROW)
    assert run(copy, SOLVE, fast_queue) == "solved"


def test_a_mechanism_is_one_text(copy, fast_queue):
    append(copy / "clhines" / "mechanisms" / "builtin.py", TEXT)
    assert run(copy, SIMULATE, fast_queue) == "simulated"
