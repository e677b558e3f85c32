"""A model whose advance() is BMTK's, with modules like BMTK's, run by NEURON and by the switch."""

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
from neuron import h

import clhines

BIONET = "bmtk.simulator.bionet"
BLOCK, STOP = 70, 5.0  # steps, ms


class SimulatorMod:
    def step(self, sim, tstep):
        pass

    def block(self, sim, interval):
        pass


class CoreMod:
    """BMTK's clamps derive from a class of its own, which does nothing in a step either."""

    def step(self, sim, tstep):
        pass

    def block(self, sim, interval):
        self.rows, self.blocks = [], []


class Report(SimulatorMod):
    def __init__(self, *names):
        self._local_gids, self._section_types = [0, 1], {1, 3}
        self._variables, self._transforms = names[:1], dict.fromkeys(names[1:])
        self.rows, self.blocks = [], []

    def block(self, sim, interval):
        self.blocks.append([*interval, len(self.rows)])


class MembraneReport(Report):
    def step(self, sim, tstep):
        segments = [x for g in self._local_gids for x in sim.net.get_cell_gid(g).every[:-1]]
        names = *self._variables, *self._transforms
        self.rows.append([tstep, *(getattr(x, n) for x in segments for n in names)])


class SomaReport(Report):
    def step(self, sim, tstep):
        somas = [sim.net.get_cell_gid(g).soma[0](0.5) for g in self._local_gids]
        self.rows.append([tstep, *(getattr(x, self._variables[0]) for x in somas)])


class NetconReport(Report):
    def step(self, sim, tstep):
        synapses = [x for found in self._object_lookup.values() for x in found]
        self.rows.append([tstep, *(getattr(x, self._variables[0]) for x in synapses)])


class ClampReport(Report):
    def step(self, sim, tstep):
        self.rows.append([tstep, *(x._stim.i for x in self._clamps)])


class EcpMod(Report):
    """Gathers currents of membranes by pointers, as BMTK does."""

    def __init__(self):
        super().__init__()
        every = [s for g in self._local_gids for sec in cells[g].hobj.all for s in sec]
        self.pointers, self.found = h.PtrVector(len(every)), h.Vector(len(every))
        for k, segment in enumerate(every):
            self.pointers.pset(k, segment._ref_i_membrane_)

    def step(self, sim, tstep):
        self.pointers.gather(self.found)
        self.rows.append([tstep, *self.found])


class SpikesMod(Report):
    def block(self, sim, interval):
        self.rows.append(list(self.times))
        pc.spike_record(0, self.times, self.gids)  # as BMTK: into vectors that begin anew
        self.times.resize(0)


class Other(SimulatorMod):
    def step(self, sim, tstep):
        sim.net.get_cell_gid(0).clamp.amp = 0.1


class XStimMod(SimulatorMod):
    """Sets potentials outside after each step."""

    def step(self, sim, tstep):
        sim.net.get_cell_gid(0).every[0].e_extracellular = 30


class BioSimulator:
    def post_fadvance(self):
        for mod in self._sim_mods:
            mod.step(self, self.tstep)
        self.tstep += 1
        if self.tstep % self.nsteps_block == 0 or self.tstep == self.nsteps:
            for mod in self._sim_mods:
                mod.block(self, (0, self.tstep))


def cell(gid):
    soma, dend = h.Section(name=f"soma{gid}"), h.Section(name=f"dend{gid}")
    dend.connect(soma)
    soma.L = soma.diam = 20
    dend.L, dend.diam, dend.nseg = 100, 2, 2
    soma.insert("hh")
    dend.insert("pas")
    synapse = h.Exp2Syn(dend(0.25))
    clamp = h.IClamp(soma(0.5))
    clamp.amp, clamp.dur, clamp.delay = 0.5 * (gid == 0), 3, 0.5
    every = [soma(0.5), *dend]
    types = SimpleNamespace(type=[1, 3, 4])  # the last is not recorded
    morphology = SimpleNamespace(segments=every, seg_props=types)
    hobj = SimpleNamespace(all=[soma, dend])
    return SimpleNamespace(soma=[soma], dend=dend, every=every, synapse=synapse, clamp=clamp,
                           morphology=morphology, hobj=hobj)  # fmt: skip


def modules():
    mods = [MembraneReport("v"), SomaReport("m_hh"), SomaReport("ina"), NetconReport("g")]
    mods += [NetconReport("tau1"), ClampReport(), EcpMod(), SpikesMod()]
    for mod in mods:
        mod._object_lookup = {g: [c.synapse] for g, c in cells.items()}
        mod._clamps = [SimpleNamespace(_stim=c.clamp) for c in cells.values()]
    mods[-1].times, mods[-1].gids = h.Vector(), h.Vector()
    pc.spike_record(0, mods[-1].times, mods[-1].gids)
    return [*mods, CoreMod()]


def run(stops=(STOP,)):
    sim.tstep, sim._sim_mods = 0, modules()
    h.tstop = stops[0]
    h.run()
    for stop in stops[1:]:
        h.continuerun(stop)
    last = [x.v for c in cells.values() for x in c.every]
    mods = sim._sim_mods[:-1]
    return [m.rows for m in mods], [m.blocks for m in mods], [*last, h.t]


def refused(mods):
    sim.tstep, sim._sim_mods = 0, mods
    try:
        h.stdinit()
        h.continuerun(1)
    except clhines.InputError as error:
        return str(error), sim.tstep


def other_starts():
    """A report that comes after the initialization; steps that begin before 0 ms."""
    rows = []
    for t in (0, -1):
        report = MembraneReport("v")
        sim.tstep, sim._sim_mods = 0, []
        h.stdinit()
        sim._sim_mods, h.t = [report], t
        h.continuerun(1)
        rows.append(report.rows)
    return rows


names = "", ".modules", ".modules.sim_module"
bionet, kinds, base = (ModuleType(f"{BIONET}{name}") for name in names)
core = ModuleType("bmtk.simulator.core.modules.simulator_module")
bionet.BioSimulator, base.SimulatorMod, core.SimulatorMod = BioSimulator, SimulatorMod, CoreMod
for kind in (MembraneReport, SomaReport, NetconReport, ClampReport, EcpMod, XStimMod):
    setattr(kinds, kind.__name__, kind)
sys.modules |= {m.__name__: m for m in (bionet, kinds, base, core)}

pc = h.ParallelContext()
h.load_file("stdrun.hoc")
h("objref pysim\npysim = new PythonObject()")
h("proc advance() {\n\tfadvance()\n\tpysim.post_fadvance()\t// after each step\n}")
cells = {gid: cell(gid) for gid in range(2)}
wire = h.NetCon(cells[0].soma[0](0.5)._ref_v, cells[1].synapse, 0, 1, 0.05, sec=cells[0].soma[0])
pc.set_gid2node(0, pc.id())
pc.cell(0, wire)
h.CVode().use_fast_imem(1)
sim = BioSimulator()
sim.nsteps_block, sim.nsteps = BLOCK, round(STOP / h.dt)
sim.net = SimpleNamespace(get_cell_gid=cells.get)
h.pysim = sim

truth, starts = run(), other_starts()
with clhines.neuron.enable(strict=True) as on:
    ours = run(), run((2.0, STOP))
    steps = on.steps
    found = [refused([Other()]), refused([XStimMod()]), refused([MembraneReport("no such")])]
    started = other_starts()
    sim.tstep, sim._sim_mods = 0, []
    h.stdinit()
    h.pysim.nsteps = 10**6
    h.continuerun(1)
    own = sim.tstep
with clhines.neuron.enable(when="always") as on:
    report = MembraneReport("v")
    sim.tstep, sim._sim_mods, h.tstop = 0, [Other(), report], STOP
    h.run()
    fallen = len(report.rows), on.steps


def apart(a, b):
    return max(float(np.abs(np.subtract(x, y)).max()) for x, y in zip(a, b, strict=True) if len(x))


def alone(*calls):
    """What from_neuron() refuses of a model with BMTK's advance(), and with calls in each step."""
    sim.tstep, sim._sim_mods = 0, []
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


print(json.dumps({
    "rows": [len(x) for x in truth[0]],
    "apart": [[apart(a, b) for a, b in zip(truth[0], x[0], strict=True)] for x in ours],
    "blocks": [x[1] == truth[1] for x in ours], "last": [apart([truth[2]], [x[2]]) for x in ours],
    "steps": steps, "refused": found, "own": own, "spikes": sum(map(len, truth[0][-1])),
    "fallen": fallen,
    "alone": [alone(), alone(lambda: None)],
    "starts": [len(rows) for rows in started],
    "starts_apart": [apart(a, b) for a, b in zip(starts, started, strict=True)],
}))  # fmt: skip
