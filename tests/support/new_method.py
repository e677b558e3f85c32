"""Make the files of a new method in this checkout: `python tests/support/new_method.py NAME`.

They hold a method that works, one work-item per cell and serial, to be changed step by step:
template, planning module with its spec, row in `METHODS`, row in the reference, and a test.
"""

import argparse
import keyword
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("by_cell", "by_branch", "by_segment")
TABLE = "clhines/solver/plan/methods.py"
PAGE = "docs/reference/methods.md"

TEMPLATE = """\
<%page args="spec"/>\\
// spec: ${spec}
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
typedef ${spec.real} real;
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // finite inverse
// One work-item per cell, whose nodes lie parents first.
__kernel
void solve(${signature(spec)})
{
    const int cell = get_global_id(0), start = cell_start[cell], end = start + cell_size[cell];
    const long row = (long)first_row * num_values;
    int bad = 0;
    for (int i = start; i < end; ++i) { factor[i] = d[i]; x[row + i] = b[row + i]; }
    for (int i = end - 1; i >= start; --i) {   // backward sweep, from the tips to the root
        const int parent = start + node_parent[i];
        if (!(factor[i] > SMALLEST && factor[i] < INFINITY) && !bad) bad = i - start + 1;
        if (i == start) continue;
        factor[parent] -= u[i] * ${"l" if spec.unsymmetric else "u"}[i] / factor[i];
        x[row + parent] -= u[i] * x[row + i] / factor[i];
    }
    for (int i = start; i < end; ++i) {        // forward sweep, from the root to the tips
        const real above = i > start ? x[row + start + node_parent[i]] : (real)0;
        const real low = i > start ? ${"l" if spec.unsymmetric else "u"}[i] : (real)0;
        x[row + i] = (x[row + i] - low * above) / factor[i];
    }
    // 0, or 1 + the first bad node met, with the bit of a bad pivot
    status[cell_number[cell]] = bad ? bad | (${spec.status.write(bad="1")}) : 0;
}
"""
MODULE = '''\
"""One work-item per cell, parents first: `@name@`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.core.arrays import ranges
from clhines.solver.forest import Forest
from clhines.solver.plan.kernel_spec import KernelSpec
from clhines.solver.plan.plan import Limits, Options, Part, Plan, as_int32


@dataclass(frozen=True)
class @Name@Spec(KernelSpec):
    """Numbers and switches of ``@name@.mako``: those of `KernelSpec`."""

    template: ClassVar[str] = "solver/@family@/@name@"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_start:place",
        "cell_size",
        "cell_number:cell",
        "node_parent:in_order",
    )
    first_argument: ClassVar[str] = "num_cells"


def plan_@name@(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: Options,
) -> Plan:
    """Plan cell after cell, the nodes of each parents first."""
    trees, shape = forest.trees, forest.shape_of_cell
    begin = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[trees.order]
    parent = np.where(above < 0, 0, trees.rank[above] - begin)
    nodes = ranges(trees.offsets[shape], forest.sizes)  # nodes of each cell's shape, cell by cell
    gather = (trees.order - begin)[nodes] + np.repeat(forest.cell_offsets[:-1], forest.sizes)
    tables = {
        "cell_start": forest.cell_offsets[:-1],
        "cell_size": forest.sizes,
        "cell_number": np.arange(forest.num_cells),
        "node_parent": parent[nodes],
    }
    count = forest.num_cells
    spec = @Name@Spec(real=real, work_group=1)
    part = Part(spec, as_int32(tables, len(gather)), count, count, max_rhs=1)
    return Plan(forest, method, gather.astype(np.int32), (part,))
'''
ROW = """\
    "@name@": Method(
        "one work-item per cell, parents first",
        "new here",
        plan_@name@,
        {},
    ),
"""
PAGE_ROW = (
    "| `@name@` | one work-item per cell, parents first | none | new here | for comparison |\n"
)
TEST = '''\
"""Plans of `@name@`."""

import numpy as np

from clhines import Forest, make_plan


def test_example_by_hand_of_@name@():
    # cell 0: 2 - 0 - 1      cell 1: one node
    forest = Forest(np.array([2, 0, -1, -1]), np.array([0, 3, 4]))
    plan = make_plan(forest, "@name@")
    tables = {name: table.tolist() for name, table in plan.parts[0].tables.items()}
    assert plan.gather.tolist() == [2, 0, 1, 3]
    assert tables["cell_start"] == [0, 3]
    assert tables["cell_size"] == [3, 1]
    assert tables["node_parent"] == [0, 0, 1, 0]
'''


def files_of(name, family):
    """Return the text of each new file by its path in the checkout."""
    words = {
        "name": name,
        "family": family,
        "Name": "".join(word.capitalize() for word in name.split("_")),
    }
    texts = {
        f"kernels/solver/{family}/{name}.mako": TEMPLATE,
        f"clhines/solver/plan/{family}/{name}.py": MODULE,
        f"tests/solver/plan/{family}/test_{name}.py": TEST,
    }
    return {
        path: re.sub(r"@(\w+)@", lambda found: words[found[1]], text)
        for path, text in texts.items()
    }


def with_row(text, name, family):
    """Return the text of `methods.py` with a sorted import and a last row of `METHODS`."""
    lines = text.splitlines(keepends=True)
    imports = [k for k, line in enumerate(lines) if line.startswith("from clhines.solver.plan.by_")]
    first, last = imports[0], imports[-1] + 1
    added = f"from clhines.solver.plan.{family}.{name} import plan_{name}\n"
    lines[first:last] = sorted([*lines[first:last], added], key=lambda line: line.split()[1])
    if lines[-1] != "}\n" or last - first != len(imports):
        raise SystemExit(f"{TABLE} does not end with METHODS, or its imports are not side by side")
    return "".join(lines[:-1]) + ROW.replace("@name@", name) + "}\n"


def with_page_row(text, name):
    """Text of the reference with a row at the end of its first table."""
    table = re.search(r"^(\|.*\n)+", text, re.MULTILINE)
    if table is None:
        raise SystemExit(f"{PAGE} has no table")
    return text[: table.end()] + PAGE_ROW.replace("@name@", name) + text[table.end() :]


def make(root, name, family):
    """Write all of it; return the paths. Nothing is written if the name or a file exists."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "auto":
        raise SystemExit(f"name is {name!r}; expected a name of Python in lower case, not auto")
    new = files_of(name, family)
    changed = {path: (root / path).read_text("utf-8") for path in (TABLE, PAGE)}
    existing = [path for path in new if (root / path).exists()]
    if existing or f'    "{name}": Method(' in changed[TABLE]:
        raise SystemExit(f"name is {name!r}, which exists in {', '.join(existing) or TABLE}")
    changed[TABLE] = with_row(changed[TABLE], name, family)
    changed[PAGE] = with_page_row(changed[PAGE], name)
    for path, text in {**new, **changed}.items():
        (root / path).write_text(text, "utf-8")
    return [*new, *changed]


def main():
    """Read the command line, make the files, and print the next steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].rstrip(":"))
    parser.add_argument("name", help="of the method, as in METHODS")
    parser.add_argument("--family", choices=FAMILIES, default="by_cell", help="what a lane is")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout; default: this one")
    args = parser.parse_args()
    for path in make(args.root, args.name, args.family):
        print(path)
    print("next: python tests/kernels/snapshots.py")
    print("      pytest -n 0 tests/solver/plan tests/docs/test_docs.py")
    print(f'      pytest -n 0 tests/solver/test_solver.py -k "{args.name} and not Oclgrind"')


if __name__ == "__main__":
    sys.exit(main())
