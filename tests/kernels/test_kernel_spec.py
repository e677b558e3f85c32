"""The contract of a kernel: its template uses exactly the tables and arrays of its spec."""

import importlib
import re

import numpy as np
import pytest
import snapshots
from template_modules import PAIRS

from bench.made import chain, random_binary_tree
from clhines import METHODS, Forest, make_plan
from clhines.solver.plan.kernel_spec import KernelSpec, TemplateSpec
from clhines.solver.plan.templates import FOLDER, render

PARAMETERS = re.compile(r"\nvoid solve\((.*?)\)\s*(?://[^\n]*)?\n\{", re.DOTALL)
BITS = re.compile(r"(?:<<|>>)\s*\d+|&\s*\(?(?:0x[0-9a-f]+|\d+)")
OWN_BITS = {  # a float read as an int, a bit a step, turn or column, halves of a power of two
    "solver/common/pivots": {">> 32", "& 0x7fffffff", "<< 20", "<< 23"},
    "solver/by_branch/fine_vector": {">> 31"},  # the sign of an index
    "simulator/common/rates": {"& 0x7fffffff", "<< 20", "<< 23", "<< 31"},
    "simulator/common/instances_step": {"& 1"},
    "simulator/delivery": {"& 1"},
}
OWN_NUMBERS = {  # numbers that a module has as well, with another meaning
    "solver/by_branch/fine_vector": {128}  # alignment of local memory
}


def templates():
    """Name -> text without comments, of every template."""
    return {
        p.relative_to(FOLDER).with_suffix("").as_posix(): re.sub(
            r"//[^\n]*", "", p.read_text("utf-8")
        )
        for p in sorted(FOLDER.rglob("*.mako"))
    }


TEMPLATES = templates()


def parameters(source):
    """Parameter names of the kernel `solve`."""
    text = re.sub(r"//[^\n]*", "", PARAMETERS.search(source)[1])
    return [re.search(r"(\w+)\s*$", p)[1] for p in text.split(",")]


@pytest.mark.parametrize("device", snapshots.DEVICES)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_template_takes_what_its_spec_says(method, device):
    specs = list(snapshots.method_specs(method, "float64", snapshots.DEVICES[device]))
    assert specs
    for spec in specs:
        assert isinstance(spec, KernelSpec)
        _, values, row, *names = parameters(render(spec))
        assert (values, row) == ("num_values", "first_row")
        assert names == [*spec.roles(), *spec.arrays()], spec


@pytest.mark.parametrize("name", TEMPLATES)
def test_parameter_lists_are_printed_from_specs(name):
    """No kernel writes its own list."""
    kernels = re.split(r"__kernel\b(?!\s*%)", TEMPLATES[name])[1:]
    assert bool(kernels) != ("/common/" in name)
    for text in kernels:
        match = re.search(r"\bvoid\s+\w+\(\s*(.{16})", text, re.DOTALL)
        assert match
        assert match[1] == "${signature(spec", match[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_bit_fields_are_stated_once(name):
    """Shifts and masks of packed numbers are printed by `Word.read`."""
    assert set(BITS.findall(TEMPLATES[name])) <= OWN_BITS.get(name, set())


@pytest.mark.parametrize("name", [t for t in TEMPLATES if "/common/" not in t])
def test_no_constant_stands_in_python_and_in_the_template(name):
    place = name.replace("/", ".").replace("solver.by_", "solver.plan.by_")
    module = importlib.import_module(f"clhines.{PAIRS.get(name, place)}")
    constants = {v for k, v in vars(module).items() if k.isupper() and type(v) is int and v > 4}
    indents = r"\$\{part\([^}]*\}"
    text = re.sub(rf"{indents}|cl_khr_\w+|-cl-\S+|\bl?o?n?g?u?int\d+", "", TEMPLATES[name])
    numbers = {int(n, 0) for n in re.findall(r"(?<![\w.])(?:0x[0-9a-f]+|[1-9]\d*)(?![\w.])", text)}
    assert numbers & constants <= OWN_NUMBERS.get(name, set())


def test_every_spec_declares_its_kernels():
    for _, _, every in snapshots.specs():
        for spec in every:
            assert isinstance(spec, TemplateSpec)


@pytest.mark.parametrize("device", snapshots.DEVICES)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_plans_hold_the_tables_that_their_specs_name(method, device):
    forest = snapshots.forest(METHODS[method].chains_only)
    plan = make_plan(forest, method, "float64", snapshots.DEVICES[device])
    for part in plan.parts:
        assert set(part.tables) == set(part.spec.roles())


def test_tables_are_shifted_by_their_roles():
    """Two kinds of cells, planned together, have the layouts of both, one after another."""
    trees = [random_binary_tree(3000, 10, 1), chain(4), chain(4)]
    forest = Forest.from_parents(trees)
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
            cell = np.searchsorted(forest.cell_offsets, nodes, side="right") - 1
            assert len(nodes) and set(cell.tolist()) == set(
                part.tables["cell_number"][first:end].tolist()
            )
