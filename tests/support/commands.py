"""Results of the command line, and cells for it."""

import functools
from dataclasses import dataclass

import numpy as np
from processes import run_python

import clhines
from clhines import METHODS, Forest
from clhines.solver import reference
from clhines.solver.device import devices

SWC = """# a ball and three sticks
1 1 0 0 0 10 -1
2 3 0 10 0 1 1
3 3 0 60 0 0.5 2
4 3 40 90 0 0.5 3
5 3 -40 90 0 0.5 3
"""
OTHER = "1 1 0 0 0 6 -1\n2 2 6 0 0 0.7 1\n3 2 200 0 0 0.7 2\n"
TWO_ROOTS = SWC + "6 3 500 0 0 1 -1\n7 3 600 0 0 1 6\n"
TREE_METHODS = [name for name, row in METHODS.items() if not row.chains_only]


@functools.cache
def sample_nodes():
    return sum(clhines.discretise(cell).num_nodes for cell in clhines.sample_cells())


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def table(self):
        """Return the rest of each unindented line by its first word."""
        lines = [line for line in self.out.splitlines() if not line.startswith(" ")]
        return dict(line.split(maxsplit=1) for line in lines)

    def assert_refused(self, *said):
        """Assert exit code 2 and one line on stderr with these words."""
        assert self.code == 2
        assert_one_line(self.err, *said)
        assert self.out == ""


def assert_one_line(err, *said):
    assert "Traceback" not in err
    assert err.startswith("clhines")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    for text in said:
        assert text in err


def process(*arguments, cwd, python=("-m", "clhines.cli"), **environment):
    """Run the command line in a process of its own."""
    done = run_python(*python, *arguments, cwd=cwd, **environment)
    return Result(done.returncode, done.stdout, done.stderr)


def index_of(queue):
    return next(index for index, device in devices.all_devices() if device == queue.device)


def backward_euler(cables, num_cells, steps, dt=0.025, current=0.1, v_init=-65.0):
    """Return forest and voltages of cells in turn, step by step in float64."""
    cells = [cables[k % len(cables)] for k in range(num_cells)]
    forest = Forest.from_parents([c.parent for c in cells])
    systems = [c.system(dt) for c in cells]
    d, u, c, constant = (
        np.concatenate([getattr(s, name) for s in systems])
        for name in ("d", "u", "capacitance_over_dt", "constant")
    )
    constant[[o + c.soma for o, c in zip(forest.cell_offsets[:-1], cells, strict=True)]] += current
    v = np.full(forest.num_nodes, v_init)
    for _ in range(steps):
        v = reference.solve_serial(forest, d, u, c * v + constant)
    return forest, v
