"""Models of public repositories that `bench models` runs: where their parts are, how one is built.

Each function gets NEURON's h in a process whose folder is the model's. It returns the sections
whose spikes and voltages are compared, the initial voltage, and objects to keep alive.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.neuron import bare_sections
from bench.ring import ring_cables
from clhines.core.errors import InputError
from clhines.simulator.network.network import Network

NEEDS = Path(__file__).parents[1] / "mods/needs"  # files for models driven by step counts
DENTATE_CELLS = 10  # cells per kind
RING, RING_LEVELS, EXP2SYN = 20, 2, {"tau1": 0.5, "tau2": 2.0, "e": 0.0}  # cells; ms, mV
STIM, THRESHOLD, WEIGHT, DELAY = (1.0, 31.0, 61.0), -20.0, 0.05, 1.0  # ms, mV, µS, ms
STEPPING = (  # stdrun.hoc's procedures; models replace them to draw
    "proc advance() { fadvance() }",
    "proc step() {local i if (using_cvode_) { advance() } else for i=1,nstep_steprun { advance() } "
    "Plot() }",
)
Built = tuple[list[Any], float, object]


@dataclass(frozen=True)
class Case:
    """A model: where its parts are, and the function that builds it."""

    constructs: str
    mechanisms: str  # folder with its .mod files; empty for none
    here: str  # folder that it is built from; empty if it needs no repository
    # h -> sections to record, the initial voltage, and objects to keep alive
    build: Callable[[Any], Built]
    stop: float  # ms
    without: tuple[str, ...] = ()  # files that do not compile and that nothing uses
    # file, text and replacement, for a file that NEURON 9 does not compile
    edits: tuple[tuple[str, str, str], ...] = ()
    without_core: tuple[str, ...] = ()  # the same for CoreNEURON
    variables: dict[str, str] = field(default_factory=dict)  # the process's environment
    # hoc statement before a model is built, with which all its cells are; empty: they are
    whole: str = ""
    # the same model as a text network, which then runs in place of NEURON's memory
    network: Callable[[], Network] | None = None


def layer5(h: Any) -> Built:
    """Hay et al. 2011: a layer 5 pyramidal cell with a current into its soma."""
    h.load_file("import3d.hoc")
    for name in ("L5PCbiophys3", "L5PCtemplate"):
        h.load_file(f"../models/{name}.hoc")
    cell = h.L5PCtemplate("../morphologies/cell1.asc")
    clamp = h.IClamp(cell.soma[0](0.5))
    clamp.amp, clamp.delay, clamp.dur = 0.8, 100, 1e9
    h.celsius = 34
    return [cell.soma[0]], -80.0, (cell, clamp)


def purkinje(h: Any) -> Built:
    """Masoli et al. 2015: a Purkinje cell that fires by itself; calcium by KINETIC."""
    sys.path.insert(0, str(Path.cwd()))
    from Purkinje_py3 import Purkinje_py3

    cell = Purkinje_py3()
    h.celsius = 37
    return [cell.soma], -65.0, cell


def roots(h: Any) -> list[Any]:
    return [section for section in h.allsec() if section.parentseg() is None]


def written(name: str, text: str) -> None:
    """Write a file at once, as other ranks may read it."""
    temporary = Path(f"{name}.{os.getpid()}")
    temporary.write_text(text, "utf-8")
    temporary.replace(name)


def traub(h: Any) -> Built:
    """Traub et al. 2005, a tenth of its cells: a column from cortex and thalamus."""
    text = Path("init.hoc").read_text("utf-8").split('//{load_file("balanal.hoc")}')[0]
    written("part.hoc", text.replace("setuptime = startsw()", ""))
    h.load_file(1, "part.hoc")
    h("objref fihprog_")  # prints the time by CVode.event
    h.secondorder = 2
    return roots(h), -65.0, h


def dentate(h: Any) -> Built:
    """Dentate gyrus, reduced: seven cell kinds, a few cells each; gap junctions."""
    sys.path.insert(0, str(Path.cwd()))
    text = Path("main.hoc").read_text("utf-8").split("proc prun() {")[0]
    written("part.hoc", text)
    run = Path("run.hoc").read_text("utf-8").replace("main.hoc", "part.hoc")
    written("begin.hoc", run)
    Path("datasets/Control/MCtoMC.dat").touch()  # a projection that a copy may lack
    if not h.name_declared("max_cells_per_type"):  # the model's own option
        h(f"max_cells_per_type = {DENTATE_CELLS}")
    h.load_file(1, "begin.hoc")
    h("objref fi_status, fi_vrecord")  # print and record by CVode.event
    return roots(h), -75.0, h


def netpyne_hh(h: Any) -> Built:
    """NetPyNE's tutorial network: cells with hh, and NetStims with noise."""
    sys.path.insert(0, str(Path.cwd()))
    import HHTut
    from netpyne import sim

    HHTut.simConfig.recordTraces = {}
    sim.create(netParams=HHTut.netParams, simConfig=HHTut.simConfig)
    sim.preRun()
    h.load_file("stdrun.hoc")
    return roots(h), -65.0, sim


def bmtk_cells(h: Any) -> Built:
    """BMTK's example with 14 cells, and spikes from files."""
    from bmtk.simulator import bionet

    config = bionet.Config.from_json("config.simulation.json", validate=True)
    config.build_env()
    graph = bionet.BioNetwork.from_config(config)
    simulator = bionet.BioSimulator.from_config(config, network=graph)
    h("proc advance() { fadvance() }")  # BMTK's calls its own recorders
    h.celsius = 34
    return roots(h), -80.0, (graph, simulator)


def loaded(file: str, *statements: str, current: float = 0.0) -> Callable[[Any], Built]:
    """Return a function that loads a hoc file and executes statements.

    A `current`, nA, from 5 ms on enters the accessed section, which is recorded.
    """

    def build(h: Any) -> Built:
        h.load_file(1, file)
        for statement in (*statements, *STEPPING):
            if not h(statement):
                raise InputError(f"{file}: error in {statement}")
        soma = h.cas()
        clamp = h.IClamp(soma(0.5))
        clamp.delay, clamp.dur, clamp.amp = 5, 1e9, current
        return [soma], h.v_init, clamp

    return build


def ring20(h: Any, tables: bool) -> Built:
    """Ring: cells with hh in all segments, an Exp2Syn in each, a NetStim that starts it."""
    h.usetable_hh = int(tables)
    cells = [bare_sections(h, cable) for cable in ring_cables(RING, RING_LEVELS)]
    synapses, kept = [], list[Any]()
    for sections in cells:
        for section in sections:
            section.insert("hh")
        synapses.append(h.Exp2Syn(sections[0](0.5)))
        for name, value in EXP2SYN.items():
            setattr(synapses[-1], name, value)
    for sections, target in zip(cells, synapses[1:] + synapses[:1], strict=True):
        v = sections[0](0.5)._ref_v
        kept.append(h.NetCon(v, target, THRESHOLD, DELAY, WEIGHT, sec=sections[0]))
    stim = h.NetStim()
    stim.start, stim.interval, stim.number = STIM[0], STIM[1] - STIM[0], len(STIM)
    kept.append(h.NetCon(stim, synapses[0], 0, DELAY, WEIGHT))
    return [sections[0] for sections in cells], -65.0, (cells, synapses, kept, stim)


def ring20_with(h: Any, suffix: str) -> Built:
    """Ring with a mechanism in `NEEDS` in all segments, too, each read from its neighbour in hh."""
    built = ring20(h, tables=True)
    for section in h.allsec():
        section.insert(suffix)
        for segment in section if suffix == "reads" else ():
            segment.reads._ref_gate = segment.hh._ref_n
    return built


def ring_by_gids(h: Any) -> Built:
    """Ring with 64 cells, or `ring_gids`, on NEURON's MPI ranks in turn; a NetStim for each."""
    pc = h.ParallelContext()
    count = int(h.ring_gids) if h.name_declared("ring_gids") else 64
    cables, cells, kept = ring_cables(RING, RING_LEVELS), dict[int, Any](), list[Any]()
    for gid in range(int(pc.id()), count, int(pc.nhost())):
        sections, stim = bare_sections(h, cables[gid % RING]), h.NetStim()
        for section in sections:
            section.insert("hh")
        synapse = h.Exp2Syn(sections[0](0.5))
        for name, value in EXP2SYN.items():
            setattr(synapse, name, value)
        stim.start, stim.interval, stim.number = 1 + 7.3 * gid % 30, 31, 1e9
        netcon = h.NetCon(sections[0](0.5)._ref_v, None, sec=sections[0])
        netcon.threshold = THRESHOLD
        pc.set_gid2node(gid, pc.id())
        pc.cell(gid, netcon)
        kept += [stim, netcon, h.NetCon(stim, synapse, 0, DELAY, WEIGHT)]
        cells[gid] = sections, synapse
    for gid, (_, synapse) in cells.items():
        kept.append(pc.gid_connect((gid - 1) % count, synapse))
        kept[-1].weight[0], kept[-1].delay = WEIGHT, DELAY
    return [sections[0] for sections, _ in cells.values()], -65.0, (cells, kept)


def ring20_text() -> Network:
    network = Network(ring_cables(RING, RING_LEVELS))
    network.insert("hh")
    synapses = network.add("exp2syn", at=network.soma, **EXP2SYN)
    network.connect(np.roll(np.arange(RING), 1), synapses, weight=WEIGHT, delay=DELAY)
    for time in STIM:
        network.add_event(synapses, index=0, time=time + DELAY, weight=WEIGHT)
    network.threshold = THRESHOLD
    return network


DRAWN = (
    "125857 to 149100: the first ten single cells of 150 to 1,700 compartments of 72 numbers of "
    "ModelDB, shuffled by random.Random(2026). Passed over before the tenth: 9769, 44050, 87535 "
    "(exprand), 28316, 115356 (variables that all instances share and set), 119266 (a block that "
    "is called) and 136176 (LinearMechanism), which were rejected; 144526 (2,766 compartments); "
    "149000 (no cell without its windows); 19 others that are no such cells, or smaller."
)
CASES = {
    "139653": Case(
        "ions, concentrations, TABLE", "mod", "simulationcode", layer5, 1000.0,
        without_core=("mod/epsp.mod",),
    ),
    "229585": Case(
        "KINETIC, sparse, GHK", "mod_files", ".", purkinje, 1000.0,
        edits=(("mod_files/cdp5.mod", "CONSTANT { cao = 2\t(mM) }", "ASSIGNED { cao (mM) }"),),
    ),
    "nrntraub": Case(
        "NetStim with noise, many kinds of cells, secondorder = 2; a tenth of the cells; without "
        "ri.mod, which does not compile with NEURON 9 (its VERBATIM takes Section and Node apart) "
        "and is called only where use_traubexact is 1",
        "mod", ".", traub, 10.0, without=("mod/ri.mod",), whole="one_tenth_ncell = 0",
    ),
    "reduced_dentate": Case(
        f"gap junctions by ParallelContext, VecStim, ions; {DENTATE_CELLS} cells of each kind, "
        "none from MC to MC",
        "mechanisms", ".", dentate, 100.0,
        variables={"HOC_LIBRARY_PATH": "templates"}, whole="max_cells_per_type = -1",
    ),
    "netpyne": Case("NetStim with noise", "", "examples/HHTut/src", netpyne_hh, 1000.0),
    "bmtk": Case(
        "VecStim, Exp2Syn, ions, calcium",
        "examples/bio_components/mechanisms/modfiles", "examples/bio_14cells", bmtk_cells, 100.0,
    ),
    # `DRAWN`'s ten single cells, in the order in which they were drawn.
    "125857": Case("soma and dendrites", ".", ".", loaded("FRB3.hoc", current=6), 100.0),
    "126637": Case(
        "calcium", ".", ".",
        loaded("purkinje_spine and spine neck at spinydendrite133.hoc", current=1), 50.0,
    ),
    "143604": Case(
        "spines, calcium, point processes with events of their own, a NetStim", "mod", ".",
        loaded("init.hoc", current=0.5), 50.0,
    ),
    "168148": Case("calcium, BK", ".", ".", loaded("LayerVrun.hoc", current=0.8), 50.0),
    "20212": Case(
        "calcium, two ions of it", "mechanism", "experiment/hyperpolarization-current",
        loaded("H_current.hoc", "ic.amp = 0", current=1), 100.0,
    ),
    "19696": Case("two NetStims", ".", ".", loaded("fig4.hoc", "init()", current=0.5), 100.0),
    "112546": Case(
        "M current, calcium", ".", ".",
        loaded(
            "fig4a.hoc", "factor = 2", "playvec1.play_remove()", "soma.gbar_km = gkm",
            "axon.gbar_km = gkm*factor", "init()", current=3,
        ), 100.0,
    ),
    "8210": Case("myelin, spines", ".", ".", loaded("demo.hoc", current=0.5), 100.0),
    "148094": Case(
        "M currents, calcium", ".", ".",
        loaded("fig4a.hoc", "setgw()", "init()", current=0.5), 100.0,
    ),
    "149100": Case(
        "calcium", ".", ".",
        loaded(
            "import3d.hoc", 'load_file("models/L5PCbiophys_p14_exemplar.hoc")',
            'load_file("models/L5PCtemplate.hoc")', "objref cell_", "v_init = -75",
            'cell_ = new L5PCtemplate("morphologies/cell21.asc")', "access cell_.soma", current=1,
        ), 100.0,
    ),
    "2488": Case(
        "calcium and a current that depends on it", ".", ".",
        loaded("demofig1.hoc", 'load_3dcell("cells/j7.hoc")', current=0.2), 100.0,
    ),
    "ring20": Case("20 cells, hh, Exp2Syn, a NetStim", "", "", partial(ring20, tables=True), 200.0),
    "ring20-text": Case(
        "the same by texts, from no memory of NEURON, whose hh has no table here",
        "", "", partial(ring20, tables=False), 200.0, network=ring20_text,
    ),
    **{
        f"ring20-{suffix}": Case(
            f"the ring of 20 cells with {need}", str(NEEDS), "",
            partial(ring20_with, suffix=suffix), 200.0,
        )
        for suffix, need in (
            ("diffuses", "LONGITUDINAL_DIFFUSION"),
            ("hands_on", "a GLOBAL variable that each instance sets in turn"),
            ("reads", "pointers to variables of hh"),
        )
    },
    "ring-gids": Case(
        "a ring by gids, hh, Exp2Syn, NetStims; 64 cells", "", "", ring_by_gids, 200.0,
        whole="ring_gids = 512",
    ),
}  # fmt: skip
