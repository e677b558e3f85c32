"""Plans: statistics, sizes and specs; planning needs no OpenCL."""

import numpy as np
import pytest
from plans import equal_cells
from processes import output_of
from systems import dissimilar, forest_for

import clhines
from bench.made import chain, star
from clhines import METHODS, Forest, make_plan
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core


def test_work_groups_cover_all_units():
    forest = Forest.from_parents([chain(2)] * 65)
    for work_group, groups in ((64, 2), (65, 1), (66, 1), (1, 65)):
        plan = make_plan(forest, "interleaved", work_group=work_group)
        assert (plan.parts[0].num_groups, plan.parts[0].num_units) == (groups, 65)
    assert make_plan(forest, "fine", max_cells=10).parts[0].num_groups == 7
    assert (
        make_plan(forest, "flat", limits=Limits(max_work_group=16)).parts[0].spec.work_group == 16
    )


def test_spec_holds_stride_only_where_all_agree():
    equal, mixed = equal_cells(), Forest.from_parents(dissimilar(9))
    assert make_plan(mixed, "interleaved").parts[0].spec.stride == 0
    assert make_plan(mixed, "flat").parts[0].spec.stride == 1
    assert make_plan(equal, "fine", np.float32).parts[0].spec.real == "float"
    spec = make_plan(equal, "fine").parts[0].solve_spec(False, 3)
    assert (spec.symmetric, spec.rhs) == (False, 3)


def test_statistics_by_hand():
    # branches with 2, 1 and 3 nodes; 4 lanes: 2 steps in the root branch and 3 in the others
    forest = Forest(np.array([-1, 0, 1, 1, 3, 4]))
    stats = make_plan(forest, "fine", work_group=4).parts[0].statistics
    assert stats["levels"] == 2
    assert stats["dependent_steps"] == 2 * (2 + 3)
    assert stats["barriers"] == 2 * 2
    assert stats["idle_lanes"] == pytest.approx(1 - 6 / (4 * 5))
    assert stats["cells_per_block"] == 1
    narrow = make_plan(forest, "fine", work_group=1).parts[0].statistics
    assert narrow["dependent_steps"] == 2 * (2 + 3 + 3)  # two passes on the second level
    assert make_plan(forest, "flat").parts[0].statistics["dependent_steps"] == 12


@pytest.mark.parametrize("method", METHODS)
def test_describe_counts(method):
    forest = forest_for(method, [star(5), chain(3), star(5)])
    text = make_plan(forest, method).describe()
    rows = {line[:18].strip(): line[18:] for line in text.splitlines()}
    assert rows["method"] == method
    assert rows["cells"] == "3 (2 distinct shapes)"
    assert rows["nodes"] == "13"
    chains = METHODS[method].chains_only
    assert rows["branches"] == ("3" if chains else "11")
    assert rows["height"] == f"{5 if chains else 3} nodes at most"
    assert rows["padding"].endswith("% of the nodes")


def test_bytes_needed_by_hand():
    plan = make_plan(Forest.from_parents([chain(4)] * 3), "interleaved")
    tables = 4 * (5 * 3 + 4)  # five tables of one number per lane, and one shape's codes
    assert plan.bytes_needed(8, arrays=5) == 12 * 8 * 5 + 12 * 4 + tables


def test_everything_down_to_plan_works_without_pyopencl():
    code = """
        import sys
        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("pyopencl", "mako"):
                    raise ImportError("blocked: " + name)
        sys.meta_path.insert(0, Block())
        import importlib, pkgutil
        import clhines
        from bench.made import chain
        package = "clhines.solver.plan"
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")
        loaded = [importlib.import_module(m.name) for m in found]
        assert len(loaded) >= 20, loaded
        for name in ("core.errors", "core.arrays", "core.checks", "core.files",
                     "solver.forest", "solver.reference"):
            importlib.import_module("clhines." + name)
        forest = clhines.Forest.from_parents([chain(4)] * 3)
        for method in clhines.METHODS:
            print(clhines.make_plan(forest, method).packed_size)
        try:
            clhines.Solver
        except ImportError as error:
            print(error)
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    words = output_of("-c", code).split()
    assert words[-2:] == ["blocked:", "pyopencl"]
    assert words[:2] == ["12", "12"]


def test_an_unknown_attribute_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'Slover'"):
        clhines.Slover  # noqa: B018
