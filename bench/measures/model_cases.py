"""Models of public repositories that `bench models` runs: where their parts are, how one is built.

Each function takes NEURON's h, in a process whose folder is the model's, and returns sections whose
spikes and voltages are compared, the initial voltage, and what must live on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOSSY = "templates/MossyCell.hoc"
DENTATE_CELLS = 10  # of each kind
Built = tuple[list[Any], float, object]


@dataclass(frozen=True)
class Case:
    """A model: where its parts are, and how it is built.

    Attributes
    ----------
    constructs : str
    mechanisms : str
        Folder of its .mod files; empty for none.
    here : str
        Folder that it is built from.
    build : callable
        Takes NEURON's h; returns sections to record, the initial voltage, and what must live on.
    stop : float, ms
    without : tuple of str
        Files that do not compile and that nothing uses.
    edits : tuple of (str, str, str)
        File, text and what it becomes, where a file does not compile with NEURON 9.
    without_core : tuple of str
        Files that do not compile for CoreNEURON and that nothing uses.
    variables : dict of str -> str
        Of the process's environment.
    """

    constructs: str
    mechanisms: str
    here: str
    build: Callable[[Any], Built]
    stop: float
    without: tuple[str, ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    without_core: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


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
    """Return the first section of each cell."""
    return [section for section in h.allsec() if section.parentseg() is None]


def traub(h: Any) -> Built:
    """Traub et al. 2005, a tenth of its cells: a column of cortex and thalamus."""
    text = Path("init.hoc").read_text("utf-8").split('//{load_file("balanal.hoc")}')[0]
    Path("part.hoc").write_text(text.replace("setuptime = startsw()", ""), "utf-8")
    h.load_file(1, "part.hoc")
    h("objref fihprog_")  # prints the time by CVode.event
    h.secondorder = 2
    return roots(h), -65.0, h


def dentate(h: Any) -> Built:
    """Dentate gyrus, reduced: seven kinds of cells, of each a few; gap junctions."""
    sys.path.insert(0, str(Path.cwd()))
    text = Path("main.hoc").read_text("utf-8").split("proc prun() {")[0]
    Path("part.hoc").write_text(text, "utf-8")
    run = Path("run.hoc").read_text("utf-8").replace("main.hoc", "part.hoc")
    Path("begin.hoc").write_text(run, "utf-8")
    Path("datasets/Control/MCtoMC.dat").touch()  # a projection that a copy may lack
    h(f"max_cells_per_type = {DENTATE_CELLS}")  # the model's own option
    h.load_file(1, "begin.hoc")
    h("objref fi_status, fi_vrecord")  # print and record by CVode.event
    return roots(h), -75.0, h


def netpyne_hh(h: Any) -> Built:
    """NetPyNE's tutorial network of cells with hh, and NetStims with noise."""
    sys.path.insert(0, str(Path.cwd()))
    import HHTut
    from netpyne import sim

    HHTut.simConfig.recordTraces = {}
    sim.create(netParams=HHTut.netParams, simConfig=HHTut.simConfig)
    sim.preRun()
    h.load_file("stdrun.hoc")
    return roots(h), -65.0, sim


def bmtk_cells(h: Any) -> Built:
    """BMTK's example of 14 cells, with spikes from files."""
    from bmtk.simulator import bionet

    config = bionet.Config.from_json("config.simulation.json", validate=True)
    config.build_env()
    graph = bionet.BioNetwork.from_config(config)
    simulator = bionet.BioSimulator.from_config(config, network=graph)
    h("proc advance() { fadvance() }")  # BMTK's calls its own recorders
    h.celsius = 34
    return roots(h), -80.0, (graph, simulator)


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
        "mod", ".", traub, 10.0, without=("mod/ri.mod",),
    ),
    "reduced_dentate": Case(
        f"gap junctions by ParallelContext, VecStim, ions; {DENTATE_CELLS} cells of each kind, "
        "none from MC to MC; without Gfluct3, whose VERBATIM is rejected",
        "mechanisms", ".", dentate, 100.0,
        edits=(
            (MOSSY, "soma fl = new Gfluct3(0.5)\n    fl.g_e0 = 0.023\n", ""),
            (MOSSY, "fl.h = 0.25\n    fl.on = 1", ""),
            (MOSSY, "fl.noiseFromRandom123(gid, 0, 3)", ""),
        ),
        variables={"HOC_LIBRARY_PATH": "templates"},
    ),
    "netpyne": Case("NetStim with noise", "", "examples/HHTut/src", netpyne_hh, 1000.0),
    "bmtk": Case(
        "VecStim, Exp2Syn, ions, calcium",
        "examples/bio_components/mechanisms/modfiles", "examples/bio_14cells", bmtk_cells, 100.0,
    ),
}  # fmt: skip
