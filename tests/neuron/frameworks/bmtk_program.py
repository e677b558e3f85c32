"""A model with reports of BMTK, whose network is a stand-in.

With the argument ``reports`` NEURON and the switch run it, with ``refused`` the switch refuses it.
"""

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
from bmtk.simulator import bionet
from bmtk.simulator.bionet import modules as kinds
from bmtk.simulator.bionet.gids import GidPool
from bmtk.simulator.bionet.modules.sim_module import SimulatorMod
from neuron import h

import clhines

BLOCK, STOP = 70, 5.0  # steps, ms
DATA = "report/a/data", "report/b/data", "data", "ecp/data"  # in report files


class Spikes(SimulatorMod):
    """A module that acts only after blocks of steps."""

    def __init__(self):
        self.rows, self.times, self.gids = [], h.Vector(), h.Vector()
        pc.spike_record(0, self.times, self.gids)

    def block(self, sim, interval):
        self.rows.append([*interval, h.t, *self.times])
        pc.spike_record(0, self.times, self.gids)  # as BMTK: into vectors that begin anew
        self.times.resize(0)


class Stimulus(SimulatorMod):
    def step(self, sim, tstep):
        sim.net.get_cell_gid(0).clamp.amp = 0.1


class Cell:
    def __init__(self, gid):
        self.gid, self.netcons = gid, []
        soma, dend = h.Section(name=f"soma{gid}"), h.Section(name=f"dend{gid}")
        dend.connect(soma)
        soma.L = soma.diam = 20
        dend.L, dend.diam, dend.nseg = 100, 2, 2
        soma.insert("hh")
        dend.insert("pas")
        self.synapse, self.clamp = h.Exp2Syn(dend(0.25)), h.IClamp(soma(0.5))
        self.clamp.amp, self.clamp.dur, self.clamp.delay = 0.5 * (gid == 0), 3, 0.5
        self.soma, self.dend, self.hobj = [soma], [dend], SimpleNamespace(all=[soma, dend])
        self.every = [soma(0.5), *dend]
        x = [segment.x for segment in self.every]
        self.morphology = SimpleNamespace(
            segments=self.every,
            seg_props=SimpleNamespace(sec_id=[0, 1, 1], x0=x, x=x, x1=x, type=[1, 3, 4]),
            get_swc_id=lambda number, x: (number, x),
        )
        ends = np.array([[0.0, 30, 80], [0, 0, 0], [0, 0, 0]])
        self.seg_coords = SimpleNamespace(
            p0=ends, p1=ends + np.array([[20], [1], [2]]), d=np.full(3, 2.0)
        )
        self.pointers, self.currents = h.PtrVector(3), h.Vector(3)

    def set_im_ptr(self):
        for k, segment in enumerate(self.every):
            self.pointers.pset(k, segment._ref_i_membrane_)

    def get_im(self):
        self.pointers.gather(self.currents)
        return np.array(self.currents)


class Population(list):
    def __init__(self, name, gid):
        super().__init__([SimpleNamespace(gid=gid, node_id=0, model_type="biophysical")])
        self.name = name


class Net:
    """The part of BMTK's network that reports use: two populations with a cell each."""

    def __init__(self):
        self.cells, self.gid_pool = {gid: Cell(gid) for gid in range(2)}, GidPool()
        self.node_populations = [Population("a", 0), Population("b", 1)]
        for population in self.node_populations:
            self.gid_pool.add_pool(population.name, [0])
        self.local_gids, self.get_cell_gid = [0, 1], self.cells.get

    def get_local_cells(self):
        return self.cells

    def cell_type_maps(self, kind):
        return self.cells

    def get_node_set(self, gids):
        return SimpleNamespace(gids=lambda: gids)


def reports(folder):
    """Return all kinds of reports, some of which begin late, end early, or skip steps."""
    electrodes = folder / "electrodes.csv"
    electrodes.write_text("channel x_pos y_pos z_pos\n0 0 50 0\n1 40 90 5\n")
    of_soma = {"cells": [0, 1], "sections": ["soma"]}
    synapses = kinds.NetconReport(folder, "g.h5", ["g"], [0, 1])
    synapses._get_syn_location = lambda netcon, cell: (0, 0.5)
    return [
        kinds.MembraneReport(folder, "v.h5", ["v"], gids=[0, 1], sections=["soma", "dend"]),
        kinds.MembraneReport(folder, "late.h5", ["v"], gids=[0], start_time=0.5, end_time=4.5),
        kinds.SomaReport(folder, "m.h5", ["m_hh"], **of_soma),
        kinds.SomaReport(folder, "ina.h5", ["v", "ina"], dt=4 * h.dt, **of_soma),
        synapses,
        kinds.ClampReport(folder, "i.h5", "ic"),
        kinds.EcpMod(folder, "ecp.h5", electrodes, contributions_dir="cells", cells=[0, 1]),
    ]


def begin(mods):
    """Let a new simulator of BMTK have modules."""
    h.tstop = STOP
    sim = bionet.BioSimulator(net, h.dt, STOP, -65, 6.3, BLOCK)
    for mod in mods:
        sim.add_mod(mod)
        is_of_clamps = isinstance(mod, kinds.ClampReport)
        clamps = [SimpleNamespace(_stim=cell.clamp) for cell in net.cells.values()]
        mod.initialize(sim, *([clamps] if is_of_clamps else []))
    return sim


def run(stops=(STOP,)):
    """Return the tables of the reports, by file, and the last voltages; and the spikes."""
    with tempfile.TemporaryDirectory() as name:
        folder, spikes, tables = Path(name), Spikes(), {}
        sim = begin([*reports(folder), spikes])
        h.tstop = stops[0]
        h.run()
        for stop in stops[1:]:
            h.continuerun(stop)
        for mod in sim._sim_mods:
            mod.finalize(sim)
        for path in sorted(folder.rglob("*.h5")):
            with h5py.File(path) as file:
                tables |= {f"{path.stem}/{key}": file[key][()] for key in DATA if key in file}
    last = [x.v for cell in net.cells.values() for x in cell.every]
    return {**tables, "last": np.array([*last, h.t])}, spikes.rows


def refused(*mods):
    sim = begin(mods)
    try:
        h.stdinit()
        h.continuerun(1)
    except clhines.InputError as error:
        return str(error), sim.tstep


def reading(name):
    """A report of a variable; modules other than BMTK's may lack the attributes that it uses."""
    report = kinds.MembraneReport(tempfile.gettempdir(), f"{name}.h5", [name], gids=[0])
    if name == "without":
        report._variables, report.initialize = ["v"], lambda sim: None
    return report


def before_zero():
    """Steps that begin before 0 ms, with a report that is added after the initialization."""
    with tempfile.TemporaryDirectory() as folder:
        sim = begin([])
        report = kinds.MembraneReport(folder, "v.h5", ["v"], gids=[0, 1], sections=["soma"])
        report.initialize(sim)
        sim.add_mod(report)
        h.stdinit()
        h.t = -1
        h.continuerun(1)
        report.block(sim, (0, 80))
        report.finalize(sim)
        with h5py.File(Path(folder) / "v.h5") as file:
            return file["report/a/data"][:80]


def alone(*calls):
    """Return the refusals of from_neuron() for BMTK's advance(), and for calls in each step."""
    begin([])
    for call in calls:
        h.CVode().extra_scatter_gather(0, call)
    h.finitialize(-65)
    try:
        clhines.from_neuron()
    except clhines.InputError as error:
        return str(error)
    finally:
        for call in calls:
            h.CVode().extra_scatter_gather_remove(call)


def apart(a, b):
    return float(np.abs(np.subtract(a, b)).max())


pc = h.ParallelContext()
h.load_file("stdrun.hoc")
h("objref pysim\npysim = new PythonObject()")
h("proc advance() {\n\tfadvance()\n\tpysim.post_fadvance()\t// after each step\n}")
net = Net()
first, second = net.cells.values()
wire = h.NetCon(first.soma[0](0.5)._ref_v, second.synapse, 0, 1, 0.05, sec=first.soma[0])
second.netcons.append(wire)
pc.set_gid2node(0, pc.id())
pc.cell(0, wire)

if sys.argv[1] == "reports":
    truth, spikes = run()
    early = before_zero()
    with clhines.neuron.enable(strict=True) as on:
        ours = [run(), run((2.0, STOP))]
        steps = on.steps
        here = before_zero()
    found = {
        "shapes": {key: x.shape for key, x in truth.items()},
        "largest": {key: apart(x, 0) for key, x in truth.items()},
        "same_tables": [x.keys() == truth.keys() for x, _ in ours],
        "apart": [{key: apart(truth[key], x[key]) for key in truth} for x, _ in ours],
        "spikes": [rows == spikes for _, rows in ours],
        "blocks": [row[:2] for row in spikes],
        "fired": sum(len(row) - 3 for row in spikes),
        "steps": steps,
        "before_zero": [early.shape, apart(early, here), float(np.ptp(early))],
    }
else:
    with clhines.neuron.enable(strict=True):
        messages = [refused(mod) for mod in (Stimulus(), reading("no such"), reading("without"))]
    with clhines.neuron.enable(when="always") as on:
        sim = begin([Stimulus()])
        h.run()
        by_neuron = sim.tstep, on.steps
    both = [alone(), alone(lambda: None)]
    found = {"refused": messages, "by_neuron": by_neuron, "alone": both}
print(json.dumps(found))
