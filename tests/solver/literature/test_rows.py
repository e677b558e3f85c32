"""Rows of `METHODS` whose planners are in `clhines.solver.literature`."""

import pickle
import subprocess
import sys

from bench.made import chain
from clhines import METHODS, Forest, make_plan
from clhines.solver.plan import auto
from clhines.solver.plan.methods import PlannerName

ROWS = {name for name, row in METHODS.items() if isinstance(row.build, PlannerName)}


def test_the_rows():
    assert ROWS == {"dhs", "cr", "pcr", "cr_pcr"}
    for method in METHODS:
        (part, *_) = make_plan(Forest(chain(9)), method).parts
        assert part.spec.template.startswith("solver/literature/") == (method in ROWS), method


def test_a_row_can_be_copied_by_pickle():
    for row in METHODS.values():
        assert pickle.loads(pickle.dumps(row.build)) == row.build


def test_auto_takes_none_of_them():
    for candidates in auto.CANDIDATES.values():
        assert not {c.method for c in candidates} & ROWS


def test_a_planner_is_imported_when_it_plans():
    program = f"""
import sys
import clhines.solver.plan.methods
from clhines import METHODS, Forest, Solver, make_plan

def loaded():
    return sorted(name for name in sys.modules if name.startswith("clhines.solver.literature"))

forest = Forest([-1, 0, 1])
for method in ["auto", *METHODS]:
    if method not in {ROWS}:
        make_plan(forest, method)
assert not loaded(), loaded()
make_plan(forest, "cr")
assert loaded() == ["clhines.solver.literature", "clhines.solver.literature.reduction"], loaded()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
