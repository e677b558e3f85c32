"""Plans of epochs on chip: cells by size, lists and slots, rates without branches."""

import re
from dataclasses import replace

import numpy as np
import pytest
from networks import DT, block_simulation, blocks, crowded_network, simple_network

from bench.cells import ring_cell
from bench.ring import ring_cables, ring_network
from clhines import InputError, Network, Simulation
from clhines.simulator.cells.cable import discretise
from clhines.simulator.gpu.functions import with_sites
from clhines.simulator.gpu.layout import CellLayout, CellRegions
from clhines.simulator.gpu.plan import plan_epochs
from clhines.simulator.kinds.arenas import fill_arenas
from clhines.simulator.kinds.blocks import spec_of
from clhines.simulator.model import compile
from clhines.simulator.ranks.partition import Share
from clhines.simulator.state.decisions import Decisions
from clhines.simulator.state.sources import wires_of
from clhines.simulator.state.variables import Variables
from clhines.solver.device.devices import limits
from clhines.solver.plan.plan import Limits
from clhines.solver.plan.templates import render


def filled(plan):
    """Return a plan's spec with the functions of its mechanisms."""
    model = plan.cells.model
    variables, layout = Variables(model, wires_of(model)), CellLayout(model)
    place = np.arange(model.forest.num_nodes)
    arenas = fill_arenas(variables, np.dtype(np.float64), place, layout)
    CellRegions(model, variables.wires).add_sites(layout, arenas)
    return with_sites(plan.spec, spec_of(variables, arenas, "double")[0], model)


def test_parts_take_lists_where_the_whole_does():
    """A part with small cells alone has room for slots but uses the lists of the whole network."""
    cables = [discretise(ring_cell(levels, 1.0, 6, seed=3), max_length=20.0) for levels in (3, 1)]
    net = Network(cables, 2)
    net.insert("hh")
    model = compile(net, DT)
    slots = plan_epochs(model, "float64", Limits(), units=1)[0].spec
    states = sum(len(k.states) * k.most for k in slots.kinds) * 8
    small = replace(Limits(), local_bytes=slots.chip.local_bytes - states - 1)
    alone = Network(cables[1:])
    alone.insert("hh")
    assert not plan_epochs(compile(alone, DT), "float64", small)[0].spec.by_node
    part = Share(model, 1, 2).model()
    decisions = Decisions.of(model, split=True)
    (of_part,) = plan_epochs(part, "float64", small, decisions=decisions)
    (whole,) = plan_epochs(model, "float64", small)
    assert of_part.spec.by_node
    assert whole.spec.by_node
    assert of_part.spec.segment == whole.spec.segment


def test_equal_cells_share_lists():
    def plan(gnabar):
        model = compile(crowded_network(gnabar=gnabar)[0], DT)
        return plan_epochs(model, "float64", Limits(), by_node=True)[0].lists

    equal, other = plan(0.1), plan(0.2)
    assert len(other.rows) == 2 * len(equal.rows)
    assert len(np.unique(equal.homes[:, 2])) == 1
    assert len(np.unique(other.homes[:, 2])) == 2
    assert equal.state_lines + 3 * equal.local_lines > 0
    every = equal.lanes.places[equal.lanes.places >= 0]
    assert len(np.unique(every)) == len(every)


def test_numbers_have_bits_enough(fast_queue):
    spec = block_simulation(simple_network, fast_queue, "float32").runner.kernels.launches[0].spec
    wide = replace(limits(fast_queue.device), max_work_group=1 << 20, local_bytes=1 << 30)
    assert spec.fits(wide)
    assert replace(spec, units=16, capacity=1 << 12, slots=(1 << 15) - 1).fits(wide)
    for name, value in (("units", 17), ("capacity", (1 << 12) + 1), ("slots", 1 << 15)):
        assert not replace(spec, **{name: value}).fits(wide)


def test_cells_of_too_many_lanes_are_refused(fast_queue):
    net = Network(discretise(ring_cell(5, 1.0, 3, seed=1), max_length=1.0))
    assert net.forest.num_nodes > 1 << 10
    wide = replace(limits(fast_queue.device), max_work_group=1 << 20, local_bytes=1 << 30)
    with pytest.raises(InputError, match=r"lanes: too large.*use engine='steps'"):
        Simulation(net, DT, "float32", queue=fast_queue, engine=blocks(wide, segment=1))


@pytest.mark.parametrize("ptx", [True, False])
def test_rates_of_varying_factors_have_no_branches_and_constants_are_worked_out_once(ptx):
    network = ring_network(ring_cables(2), 2, "all")
    (plan,) = plan_epochs(compile(network, 0.025), "float64", Limits(ptx=ptx))
    spec = filled(plan)
    kind = next(k for k in spec.sites if k.name == "hh")
    assert spec.takes_series
    assert kind.constants  # the temperature factor
    match = re.search(r"static void hh_constants\([^{]*\{(.*?)\n\}", kind.functions, re.DOTALL)
    assert match and "celsius" in match[1]
    function = r"static void hh_(?:current|advance)\([^{]*\{(.*?)\n\}"
    bodies = re.findall(function, kind.functions, re.DOTALL)
    assert len(bodies) == 2
    assert not any("celsius" in body or re.search(r"\bexp\(", body) for body in bodies)
    # a barrier number in a register would reserve all barriers of a work-group
    assert "bar.sync %" not in render(spec)
    soma = plan_epochs(compile(ring_network(ring_cables(2), 2, "soma"), 0.025), "float64", Limits())
    assert not soma[0].spec.takes_series


def test_few_cells_are_launched_smallest_first_with_the_registers_that_are_left():
    """The largest cells, two or three per compute unit, leave registers that they can use."""
    model = compile(ring_network(ring_cables(64, seed=2018), 64, "all"), 0.025)
    few, many = (
        plan_epochs(model, "float64", Limits(compute_units=count, ptx=True)) for count in (8, 6)
    )
    sizes = [[plan.spec.lanes for plan in plans] for plans in (few, many)]
    assert sizes == [[96, 128], [128, 96]]
    registers = [[plan.spec.registers for plan in plans] for plans in (few, many)]
    assert registers == [[128, 168], [128, 128]]
