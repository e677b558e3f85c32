"""Hashes of all generated kernels, with each vendor switch on and off.

A kernel that changes by accident fails `test_snapshots.py`. After a change that is meant, write
the hashes again, from the root of the checkout, and commit them with it:

    python tests/kernels/snapshots.py

The file has a line for each of the devices below, dtype and method (or template): the hash of all
the forms of its kernels, one after another.
"""

import hashlib
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # for a run as a program
from bench.cells import ring_cell
from bench.made import chain, random_binary_tree, star
from clhines import METHODS, Forest, Network, make_plan
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cpu.blocks import (
    BlockLayout,
    BlockTables,
    CellBlocksSpec,
    make_tiles,
)
from clhines.simulator.cpu.groups import level_ions, node_classes, variable_nodes
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.simulator.engines.steps import LayersSpec
from clhines.simulator.events import grid as delivery
from clhines.simulator.events import grid_run, plasticity
from clhines.simulator.events.event_list import TakenSpec
from clhines.simulator.gpu import plan as epoch_plan
from clhines.simulator.gpu.artificial import ArtificialSpec
from clhines.simulator.gpu.functions import with_lists, with_sites
from clhines.simulator.gpu.layout import CellLayout, CellRegions
from clhines.simulator.gradients.events import EventConnections
from clhines.simulator.gradients.plan import CopyLayout, GradientPlan
from clhines.simulator.kinds.arenas import add_vectors, fill_arenas
from clhines.simulator.kinds.blocks import spec_of
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.model import compile
from clhines.simulator.network.plasticity import RULES, Rule
from clhines.simulator.records.features import FeaturesSpec
from clhines.simulator.records.records import CURRENT, ION, Record
from clhines.simulator.records.reduced import ReducedSpec
from clhines.simulator.state.changes import SpreadSpec
from clhines.simulator.state.sources import wires_of
from clhines.simulator.state.variables import Variables
from clhines.solver.chains.device import ChainsSpec
from clhines.solver.device.timing import FloorSpec
from clhines.solver.engines.loaded import PermuteSpec
from clhines.solver.plan.by_cell.lanes import LanesSpec
from clhines.solver.plan.by_cell.many import many_spec
from clhines.solver.plan.plan import Limits, real_name
from clhines.solver.plan.templates import render

sys.path.append(str(Path(__file__).parents[1] / "support"))  # for a run as a program
import exact_cells
import exact_ranks
from networks import fibres_in_field, full_rows, layered_network

FILE = Path(__file__).with_name("snapshots.json")
PAGE = Path(__file__).parents[2] / "docs" / "how-it-works" / "generated.md"
CPU = Limits(compute_units=4, max_work_group=1024, is_cpu=True, vector_bytes=32)
GPU = Limits(compute_units=132, max_work_group=1024)
SMALL = replace(GPU, local_bytes=4 << 10, max_work_group=64)  # cells do not fit: pieces of them
DEVICES = {
    "cpu": CPU,
    "cpu, Clang": replace(CPU, clang=True),
    "gpu": GPU,
    "gpu, PTX": replace(GPU, ptx=True),
    "gpu, bulk PTX": replace(GPU, ptx=True, bulk=True),
    "small": SMALL,
    "small, PTX": replace(SMALL, ptx=True),
    "small, bulk PTX": replace(SMALL, ptx=True, bulk=True),
}
OPTIONS = {  # besides the default ones, if they bring in other kernels
    "fine": [{"work_group": 16}, {"work_group": 16, "local": True}, {"vector_width": 4}],
    "levels": [{"padding": "skip"}, {"padding": "compute"}],
    "contraction": [{"registers": True}],
    "block_interleaved": [{"block_size": 8, "vector_width": 4}],
}
ALIKE = {  # methods with kernels for a property that all cells share -> such cells
    "interleaved": [
        [chain(n) for n in (3, 17, 1)],
        [chain(35)] * 5,
        [random_binary_tree(21, 5, k) for k in (1, 2)],
    ],
    "block_interleaved": [[chain(19)] * 64],
}


def forest(chains_only):
    """Cells with several sizes and shapes, one of them large."""
    sizes = (3, 17, 17, 1, 700)
    if chains_only:
        return Forest.from_parents([chain(n) for n in sizes])
    return Forest.from_parents([star(9), *(random_binary_tree(n, 5, n) for n in sizes)])


def forms(part):
    """Every form of a launch's kernel: with and without l, rows, factors, natural order."""
    orders = (False, True) if part.spec.takes_natural and not part.source else (False,)
    factors = ("", "use") if part.keeps_factors else ("",)
    for symmetric in (True, False):
        for rhs, factor, natural in itertools.product(sorted({1, part.max_rhs}), factors, orders):
            yield part.solve_spec(symmetric, rhs, factor, natural)
        if part.keeps_factors:
            yield part.solve_spec(symmetric, 1, "make")


def method_specs(method, dtype, limits):
    """Specs for all kernels in a method."""
    row = METHODS[method]
    for options in [{}, *OPTIONS.get(method, [])]:
        for part in make_plan(forest(row.chains_only), method, dtype, limits, **options).parts:
            yield from forms(part)
    for cells in ALIKE.get(method, []):
        for part in make_plan(Forest.from_parents(cells), method, dtype, limits).parts:
            yield from forms(part)


def model(noise, secondorder):
    """Active somas on passive dendrites, with synapses; with noise the dendrites vary too."""
    cables = [discretise(ring_cell(3, 0.6, 3, seed=k), max_length=90.0) for k in (1, 2)]
    net = Network(cables, 4)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    synapses = net.add("expsyn", at=net.soma, tau=np.linspace(1.0, 2.0, 4), e=0.0)
    net.connect(np.arange(4), synapses, np.roll(np.arange(4), 1), 0.05, 0.5)
    if noise:
        net.add("inoise", at=net.soma + 1, mean=0.01, std=0.02)
        net.insert("hh", net.soma + 2)
    return compile(net, 0.025, secondorder=secondorder, seed=7)


def network_specs(dtype, limits):
    """Specs of the kernels that advance a network."""
    for noise, secondorder in ((False, False), (True, True)):
        network = model(noise, secondorder)
        if limits.is_cpu:
            for alone in (False, True):
                yield spec_of_blocks(network, dtype, alone)
                yield spec_of_blocks(compile(full_rows()), dtype, alone)
            continue
        variables = Variables(network, wires_of(network))
        variables.want([(CURRENT,)] + [()] * (len(network.kinds) - 1))
        layout, place = CellLayout(network), np.arange(network.forest.num_nodes)
        tables = fill_arenas(variables, np.dtype(dtype), place, layout)
        regions = CellRegions(network, variables.wires)
        regions.add_sites(layout, tables)
        regions.add_lists(network, place, False, tables)
        functions = spec_of(variables, tables, real_name(dtype))[0]
        for by_node in (None, True):
            for plan in epoch_plan.plan_epochs(network, dtype, limits, by_node=by_node):
                if plan.lists is not None:
                    yield with_lists(plan.spec, functions, plan.lists, variables, network, 64)[0]
                elif by_node is None:
                    spec = with_sites(plan.spec, functions, network)
                    more = {"samples": True, "detects": True, "whole": not spec.constant}
                    yield from (spec, replace(spec, **more))
                    if spec.constant:
                        yield spec.of_factors


def exact_specs(dtype):
    """Specs for the kernels with exact times, with all kinds of mechanisms."""
    real = real_name(dtype)
    net, _ = exact_ranks.network()
    for secondorder in (0, 1, 2):
        model = compile(net, 0.025, secondorder=secondorder, seed=7)
        variables = Variables(model, wires_of(model))
        tables = fill_arenas(variables, np.dtype(dtype), np.arange(model.forest.num_nodes))
        vector_bytes = 64 * (secondorder == 1)
        if vector_bytes:
            add_vectors(model, tables)
        spec, _ = spec_of(variables, tables, real, vector_bytes)
        yield spec
    yield block_spec(dtype)


def block_spec(dtype):
    """Spec for blocks of cells, which read no voltages from each other."""
    model = compile(exact_ranks.network(gaps=False)[0], 0.025, secondorder=1, seed=7)
    return spec_of_blocks(model, dtype)


def spec_of_blocks(model, dtype, alone=False):
    """Return the spec of a model in one block; with `alone` it delivers events in whole steps."""
    variables = Variables(model, wires_of(model))
    blocks = blocks_of(model, variables.wires, work_of(model), 1, 1.0)
    tiles = make_tiles(model, blocks, 4, variable_nodes(model), node_classes(model))
    layout = BlockLayout(model, tiles, 64 // np.dtype(dtype).itemsize, False)
    place = layout.number(np.arange(layout.count))
    tables = fill_arenas(variables, np.dtype(dtype), place, layout)
    BlockTables(model, variables.wires, blocks, layout).add(variables, model, tables)
    spec, _ = spec_of(variables, tables, real_name(dtype), 64, layout.groups)
    return CellBlocksSpec.of(spec, model, layout, tuple(level_ions(variables, model)), alone)


def arena_epoch_specs(dtype, limits):
    """Specs for a network's epochs with exact times."""
    builds = [exact_cells.network] * 2 + [exact_cells.with_artificial]
    cases = [*zip(builds, range(3)), (layered_network, 0), (fibres_in_field, 0)]
    for build, secondorder in cases:
        model = compile(build()[0], 0.025, secondorder=secondorder, seed=7)
        variables = Variables(model, wires_of(model))
        place = np.arange(model.forest.num_nodes)
        tables = fill_arenas(variables, np.dtype(dtype), place)
        regions = CellRegions(model, variables.wires)
        regions.add_lists(model, place, False, tables)
        functions = spec_of(variables, tables, real_name(dtype))[0]
        for together in (False, True) if secondorder == 2 else ():
            yield ArtificialSpec.of(functions, together)
        for plan in epoch_plan.plan_epochs(model, dtype, limits, by_node=True):
            for far, epoch in ((False, 64), (True, 1))[: 2 if model.layers is None else 1]:
                spec = replace(plan.spec, far=far)
                common = plan.lists, variables, model, epoch
                yield replace(with_lists(spec, functions, *common)[0], layers=regions.layers)


def gradient_specs(dtype):
    """Specs of backward steps: copies with and without vectors, texts and a TABLE."""
    for name, width in itertools.product(("hh", "calva"), (1, 4)):
        parent = np.where(np.arange(8) % 2, np.arange(8) - 1, -1)
        net = Network.from_arrays(parent, 2 * np.arange(5), [300.0] * 8, [0.1] * 8, [0.01] * 8)
        net.insert(name if name == "hh" else Path(__file__).parents[2] / "bench/mods/calva.mod")
        model = compile(net, 0.025)
        variables = Variables(model, wires_of(model))
        parameter = "gbar" if name == "calva" else "gnabar"
        layout = CopyLayout(model, width)
        planned = (layout, {0: {parameter}}, name == "hh", real_name(dtype))
        spec = GradientPlan(variables, *planned).spec
        yield from (spec, replace(spec, directions=((0, parameter, 0),), tile=8, registers=64))
        for lanes in [Lanes(False), Lanes(True)] if width == 1 else []:
            spec = GradientPlan(variables, *planned, lanes=lanes).spec
            back = {"tile": 4, "stride": 2, "diagonal": False}
            yield from (replace(spec, kernel=name, **back) for name in ("take_step", "take_back"))
    parent = np.where(np.arange(8) % 2, np.arange(8) - 1, -1)
    for width in (1, 4):  # events with the slope of a sigmoid, events from outside, ions
        net = Network.from_arrays(parent, 2 * np.arange(5), [300.0] * 8, [0.1] * 8, [0.01] * 8)
        synapses = net.add("exp2syn", at=[0, 0, 2, 2, 4, 4, 6, 6])
        net.connect([0, 1], synapses, [2, 1], weight=0.1, delay=1.0)
        net.add_event(synapses, 0, 0.1, 0.1)
        model = compile(net, 0.025)
        variables, layout = Variables(model, wires_of(model)), CopyLayout(model, width)
        planned = layout, {0: {"tau1"}}, False, real_name(dtype), (), EventConnections(model, 8)
        yield replace(GradientPlan(variables, *planned).spec, surrogate=True)
        net = Network.from_arrays(parent, 2 * np.arange(5), [300.0] * 8, [0.1] * 8, [0.01] * 8)
        for name in ("ca_l", "ca_pool", "sk"):
            net.insert(name)
        model = compile(net, 0.025)
        variables, layout = Variables(model, wires_of(model)), CopyLayout(model, width)
        records = [Record("cai", ION, np.arange(2)), Record("z", 2, np.arange(2))]
        yield GradientPlan(variables, layout, {}, False, real_name(dtype), records).spec


def other_specs(dtype):
    """Specs of the kernels that know nothing of the device but numbers."""
    real = real_name(dtype)
    yield from (PermuteSpec(real), ChainsSpec(real))
    for limits, chains in itertools.product(DEVICES.values(), (True, False)):
        yield many_spec(real, limits, chains)
    for lanes, ragged, symmetric in ((1, False, True), (8, False, False), (8, True, True)):
        width = min(lanes, 32 // np.dtype(dtype).itemsize)
        yield LanesSpec(real, width, lanes // width, ragged, symmetric)
    yield SpreadSpec(real)
    yield TakenSpec()
    yield from gradient_specs(dtype)
    yield FeaturesSpec(real)
    yield ReducedSpec(real, "double", 4, 8)
    pairs = {"lanes": 32, "tile": 16, "ptx": True}
    yield from (ReducedSpec(real, "double", **pairs, pairs=each) for each in (True, False))
    if real == "float":
        yield ReducedSpec(real, "float")
    yield from (FloorSpec(real, width, width > 1) for width in (1, 4))
    yield grid_run.EventsSpec()
    yield from (plasticity.PlasticSpec(16, Rule(name).text) for name in RULES)
    yield from (delivery.DeliverSpec(algorithm, 8) for algorithm in delivery.ALGORITHMS)


def specs():
    """Yield (name, device, specs) for every line in the file."""
    for (name, limits), dtype in itertools.product(DEVICES.items(), ("float64", "float32")):
        for method in METHODS:
            line_specs = list(method_specs(method, dtype, limits))
            if line_specs:
                yield f"{name}; {dtype}; {method}", name, line_specs
        if limits.local_bytes >= GPU.local_bytes:
            yield f"{name}; {dtype}; networks", name, list(network_specs(dtype, limits))
            if not limits.is_cpu:
                line_specs = list(arena_epoch_specs(dtype, limits))
                yield f"{name}; {dtype}; networks with exact times", name, line_specs
    for dtype in ("float64", "float32"):
        others = list(other_specs(dtype))
        ptx = [spec for spec in others if getattr(spec, "ptx", False)]
        yield f"any; {dtype}; others", "any", [spec for spec in others if spec not in ptx]
        yield f"any, PTX; {dtype}; gradients", "any, PTX", ptx
        layers = [LayersSpec(real_name(dtype), k, n) for k, n in ((2, 32), (3, 1), (4, 32))]
        yield f"any; {dtype}; layers", "any", layers
        yield f"any; {dtype}; networks with exact times", "any", list(exact_specs(dtype))


def hashes():
    """Lines of the file as a dict."""
    results = {}
    for name, _, every in specs():
        text = "\n".join(render(spec) for spec in every)
        results[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return results


def page(text):
    """Return the page with its kernel replaced by the present text."""
    tree = [-1, 0, 1, 2, 3, 1, 5, 6, 4, 8, 4, 10]  # as the page draws it
    (part,) = make_plan(Forest.repeat([tree], 3), "fine", limits=GPU).parts
    before, listing, after = text.partition("```c\n")
    return before + listing + render(part.spec) + after[after.index("```") :]


if __name__ == "__main__":
    FILE.write_text(json.dumps(hashes(), indent=1) + "\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    print(f"written: {FILE}, {PAGE}")
