"""The contract of a kernel: what its spec says of tables and arrays is what its template takes."""

import re

import numpy as np
import pytest
import snapshots

from clhines import METHODS, Forest, make_plan
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device.templates import render
from clhines.plan.plan import KernelSpec

PARAMETERS = re.compile(r"\nvoid solve\((.*?)\)\s*(?://[^\n]*)?\n\{", re.DOTALL)


def parameters(source):
    """Names of the parameters of the kernel `solve`."""
    text = re.sub(r"//[^\n]*", "", PARAMETERS.search(source)[1])
    return [re.search(r"(\w+)\s*$", p)[1] for p in text.split(",")]


@pytest.mark.parametrize("device", snapshots.DEVICES)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_template_takes_what_its_spec_says(method, device):
    specs = list(snapshots.method_specs(method, "float64", snapshots.DEVICES[device]))
    assert specs
    for spec in specs:
        assert isinstance(spec, KernelSpec)
        _, values, row, *found = parameters(render(spec))
        assert (values, row) == ("num_values", "first_row")
        assert found == [*spec.roles(), *spec.arrays()], spec


@pytest.mark.parametrize("device", snapshots.DEVICES)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_plans_hold_the_tables_that_their_specs_name(method, device):
    forest = snapshots.forest(METHODS[method].chains_only)
    plan = make_plan(forest, method, "float64", snapshots.DEVICES[device])
    for part in plan.parts:
        assert set(part.tables) == set(part.spec.roles())


def test_tables_are_shifted_by_their_roles():
    """Two kinds of cells, planned together, lie where each lies by itself, one after another."""
    trees = [random_binary_tree(3000, 10, 1), chain(4), chain(4)]
    forest = Forest.from_cells(trees)
    limits = snapshots.SMALL
    whole = make_plan(forest, "contraction", "float32", limits)
    assert len(whole.parts) > 1
    cells = np.concatenate([p.tables["cell_number"] for p in whole.parts if not p.source])
    assert set(cells[cells >= 0].tolist()) == {0, 1, 2}
    for part in whole.parts:
        if part.source:
            continue
        blocks = part.tables["blocks"].reshape(-1, 8)
        for start, size, first, end in blocks[:, [0, 1, 6, 7]].tolist():
            nodes = whole.gather[start : start + size]
            nodes = nodes[nodes >= 0]
            own = np.searchsorted(forest.cell_offsets, nodes, side="right") - 1
            assert len(nodes) and set(own.tolist()) == set(
                part.tables["cell_number"][first:end].tolist()
            )
