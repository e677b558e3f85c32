"""Plans for CPUs: each work-item's cells, and the length of launches."""

import mod_files
import numpy as np
from exact_cells import CELLS, NODES, network, with_fire

from clhines.simulator.cpu.plan import blocks_of, plan_blocks, work_of
from clhines.simulator.model import compile
from clhines.simulator.state.sources import wires_of

DT, STOP = 0.05, 20.0  # ms


def test_which_networks(cpu):
    """Pointers keep cells in one block; the shortest delay between blocks is a launch's length."""
    net, _ = with_fire()
    model = compile(net, DT)
    wires, work = wires_of(model), work_of(model)
    assert plan_blocks(model, wires, 2).count == 1  # too little work for two
    assert blocks_of(model, wires, work, CELLS, np.inf) is None  # an artificial cell sends to two
    result = blocks_of(model, wires, 1e6 * work, CELLS, 1.0)
    assert result.epoch == int(model.netcons.delay[result.crossing].min() / DT + 1e-9)
    net, _ = network()
    net.set_pointer(net.add(mod_files.ours("ext_gap"), NODES), "vgap", to=[0])
    model = compile(net, DT)
    wires, work = wires_of(model), work_of(model)
    assert blocks_of(model, wires, work, CELLS, 1.0) is None
    assert blocks_of(model, wires, work, 1, 1.0).epoch > STOP / DT
