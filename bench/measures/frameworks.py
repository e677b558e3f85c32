"""Run unedited scripts of six frameworks with the switch on and off.

    CLHINES_MODELS=FOLDER python -m bench frameworks [NAME ...] [--device SPEC] [--python PROGRAM]
        [--result WORD] [--short | --ranks]

FOLDER has the public repositories ``netpyne``, ``LFPy``, ``BluePyOpt``, ``bmtk``, ``hnn-core``,
``eFEL`` and ``M1`` (``suny-downstate-medical-center/M1_NetPyNE_CellReports_2023``). PROGRAM is a
Python with these frameworks, NEURON and this package (default: this one). A script runs in its own
processes, with ``CLHINES_NEURON=always`` and without. Spikes and voltages are read from the
framework after the run. ``same step`` counts spikes in the same step in both, and ``steps`` the
steps that this package computed.

Seconds are for the whole script with its imports. The first run here has empty caches and compiles;
then NEURON and runs here take turns, and the least time of each counts. A second table has seconds
from the start of the script, imports included, until the last run ends and all spikes are known;
the script's later work is not counted. CoreNEURON also runs NetPyNE's scripts, through NetPyNE's
option, if it supports their mechanisms. Scripts of NetPyNE and BMTK also run on as many MPI ranks
as there are cores, by NEURON and here; all ranks share the device.

If spikes differ, a second run in NEURON moves a voltage of each section by the least amount once a
ms, and the row says how many of NEURON's spikes stay in their steps. ``apart`` is the difference of
voltages, mV, for hnn-core of dipoles, nAm, and of potentials at electrodes, µV. If a script of
BluePyOpt does not set the step, its simulator takes fixed steps of 0.025 ms both ways. Its
``cells`` are the models that it has tried; eFEL's are its traces. Cells of NetPyNE and hnn-core are
cells with sections, without artificial cells; their spikes are counted likewise. The code cells of
notebooks run, without lines for IPython. hnn-core sees a NEURON 7 during its import, because NEURON
9 lacks the legacy units that it asks of newer versions.

The files of `GIVEN`, beside the script of M1, run a part of M1. More than a hundredth of M1 runs
only if its whole name is given, and with ``--ranks``.

``--result WORD`` writes ``frameworks-WORD``. For long scripts, ``--short`` runs each way once: here
with empty caches, in NEURON, and on ranks. ``--ranks`` runs on ranks only: in NEURON, and here
first with empty caches and then again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench import MissingError, child, nrn, record, table

TIMEOUT = 900.0  # s
TURNS = 2  # runs each, whose least seconds count
COUNTS = "neuron_spikes", "spikes", "same_step"
WITH_RANKS = "netpyne", "BMTK"  # whose scripts run on several MPI ranks as they are
WITHOUT = {  # scripts without CoreNEURON, or without ranks, and the reason
    "LFPy": "has no option for CoreNEURON or several ranks of one cell",
    "BluePyOpt": "has no option for CoreNEURON, and shares models out, not cells",
    "hnn-core": "has no option for CoreNEURON; its MPIBackend starts processes that call "
    "nrnunit_use_legacy, which NEURON 9 refuses",
    "eFEL": "has no option for CoreNEURON or several ranks",
    "BMTK": "has no option for CoreNEURON, and calls Python after each step",
}
FAILED = {
    "failed": "", "neuron_failed": ", in NEURON", "core_failed": ", in CoreNEURON",
    "ranks_failed": ", in NEURON on several ranks", "here_ranks_failed": ", here on several ranks",
}  # fmt: skip
ENDED = {
    "neuron_ended": 8, "ranks_ended": 7, "core_ended": 7, "first_ended": 7, "ended": 6,
    "here_ranks_first_ended": 11, "here_ranks_ended": 10,
}  # fmt: skip
AT_START = "at the start"  # when older results were nudged
TUTORIALS = "netpyne/doc/source/code"
SECONDS = {"neuron_seconds": 8, "core_seconds": 6, "first_seconds": 7, "seconds": 6}  # widths
SHARES = {"netpyne M1": 0.01, "netpyne M1 5 %": 0.05, "netpyne M1 10 %": 0.1}  # share of cells
WHOLE_NAMES = [name for name in SHARES if name.endswith("%")]  # too long for one process
SCRIPTS = {  # name -> (folder, script, folder with .mod files)
    "netpyne HHTut": ("netpyne/examples/HHTut", "src/init.py", ""),
    **{
        f"netpyne {name}": (TUTORIALS, f"{name}.py", "mod")
        for name in (
            "tut2", "tut3", "tut4", "tut5", "tut6", "tut7", "tut_gap", "tut_graded",
            "tut_artif",
        )
    },
    "netpyne tut8": (TUTORIALS, "tut8_init.py", "mod"),
    **{
        f"netpyne {name}": (f"netpyne/examples/{name}", "src/init.py", mod)
        for name, mod in (("HybridTut", "mod"), ("cellDiversity", ""), ("batchCell", "mod"))
    },
    **{
        f"LFPy {name}": ("LFPy/examples", f"example_{name}.py", "")
        for name in ("EEG", "MEA", "ECoG", "anisotropy", "ECoG_4sphere")
    },
    "BluePyOpt expsyn": ("BluePyOpt/examples/expsyn", "expsyn.py", ""),
    **{
        f"BluePyOpt {name}": (f"BluePyOpt/examples/{name}", f"{name}.ipynb", "")
        for name in ("simplecell", "metaparameters")
    },
    **{
        f"hnn-core {name}": ("hnn-core/examples", f"{folder}/plot_{name}.py", "")
        for folder, name in (
            ("howto", "firing_pattern"), ("howto", "record_extracellular_potentials"),
            ("workflows", "simulate_alpha"), ("workflows", "simulate_gamma"),
        )
    },
    **{
        f"BMTK {name.removesuffix('_nosurround')}": (
            "bmtk/examples", f"{name}/run_bionet.py", "bio_components/mechanisms/modfiles",
        )
        for name in (
            "bio_1cell", "bio_14cells", "bio_300cells_nosurround", "bio_advanced_stimuli",
            "bio_intfire_ring", "bio_on_off",
        )
    },
    "eFEL eval2": ("eFEL/examples/deap", "deap_efel_eval2.py", ""),
    **{name: ("M1", "sim/init.py", "sim/mod") for name in SHARES},
}  # fmt: skip
GIVEN = {  # files beside a script, by the words that name them on its command line
    name: {
        "simConfig=part_cfg.py": """
from cfg import cfg
cfg.duration, cfg.recordLFP, cfg.analysis = 200, False, {}  # no LFP in NEURON 9
cfg.scale = 1  # 1,000 inputs of each long range
cfg.recordCells = [*range(94)]
""",
        "netParams=part_net.py": f"""
from netParams import netParams
for pop in netParams.popParams.values():
    if "density" in pop:  # cells per volume
        pop["density"] *= {share}
""",
    }
    for name, share in SHARES.items()
}
# For a separate process: runs a script, and writes the framework's spikes and voltages.
CHILD = """
import json, os, runpy, sys, time
import numpy as np
script, out, is_on = sys.argv[1], sys.argv[2], os.environ.get("CLHINES_NEURON") == "always"
words = sys.argv[3:]
if words:
    os.chdir(os.path.dirname(script))
    script = os.path.basename(script)
sys.argv = [script, *words]
sys.path.insert(0, os.getcwd())
begin, on = time.perf_counter(), None
if os.environ.get("RANKS"):
    from mpi4py import MPI
    from neuron import h
    h.nrnmpi_init()
    ranks = int(h.ParallelContext().nhost())
    if ranks != MPI.COMM_WORLD.size:
        raise RuntimeError(f"RuntimeError: NEURON has {ranks} of {MPI.COMM_WORLD.size} ranks")
if is_on:
    import clhines
    on = clhines.neuron.enable(when="always")
from neuron import h
plain, ends = type(h).__call__, []
def stamped(function, *given, **named):  # when a call that moves NEURON's time ends
    t, start = h.t, time.perf_counter()
    answer = plain(function, *given, **named)
    end = time.perf_counter()
    if h.t > 0 and (h.t != t or end - start > 0.05):
        ends[:] = [end - begin]
    return answer
type(h).__call__ = stamped
if os.environ.get("NUDGED"):
    def nudge():  # after INITIAL blocks, and once a ms
        for sec in h.allsec():
            sec(0.5).v = np.nextafter(sec(0.5).v, 0.0)
        h.CVode().event(h.t + 1.0, nudge)
    kept_handler = h.FInitializeHandler(1, nudge)
text = open(script).read()
if os.environ.get("CORE"):
    from netpyne.specs import SimConfig
    begun = SimConfig.__init__
    def made(self, *given, **named):
        begun(self, *given, **named)
        self.coreneuron = True
    SimConfig.__init__ = made
if os.environ.get("RANKS") and "gatherDataFromFiles" in text:  # rank 0 misses their last barrier
    from netpyne import sim
    merged = sim.gatherDataFromFiles
    def gathered(*given, **named):
        merged(*given, **named)
        if sim.rank == 0:
            sim.pc.barrier()
    sim.gatherDataFromFiles = gathered
if "hnn_core" in text:
    import neuron
    version, neuron.__version__ = neuron.__version__, "7"
    import hnn_core
    neuron.__version__ = version
if "bmtk" in text:  # it reads files of its folder, and ends the process
    from bmtk.simulator import bionet
    os.chdir(os.path.dirname(script))
    script = os.path.basename(script)
    sys.argv, bionet.nrn.quit_execution = [script], lambda: None
if "bluepyopt" in text:
    from bluepyopt.ephys import protocols, simulators
    simulator, sweep, responses = simulators.NrnSimulator, protocols.SweepProtocol, []
    simulator.__init__.__defaults__ = (0.025, False, *simulator.__init__.__defaults__[2:])
    run_model, run_protocol = simulator.run, sweep.run
    def counted(*given, **named):  # in a process of its own
        before = on.steps if on else 0
        run_model(*given, **named)
        with open("steps", "a") as file:
            print(on.steps - before if on else 0, time.perf_counter() - begin, file=file)
    def kept(*given, **named):
        found = run_protocol(*given, **named)
        responses.extend(x["voltage"] for x in found.values())
        return found
    simulator.run, sweep.run = counted, kept
looked_at = []
if "import efel" in text:
    import efel
    features = efel.get_feature_values
    def looked(traces, *given, **named):
        looked_at.extend(np.array(x["V"]) for x in traces)
        return features(traces, *given, **named)
    efel.get_feature_values = looked
names = runpy.run_path(script, run_name="__main__")
type(h).__call__ = plain
told = {"seconds": time.perf_counter() - begin, "steps": on.steps if on else 0}
if os.environ.get("CORE"):
    from neuron import coreneuron
    assert coreneuron.enable, "AssertionError: it has not been turned on"
told["ended"] = ends[0] if ends else None
sim, parts = sys.modules.get("netpyne.sim"), []
if sim is not None and hasattr(sim, "simData"):
    cells = [cell.gid for cell in sim.net.cells if type(cell).__name__ != "PointCell"]
    traces = [(key, np.array(x)) for key, x in sim.simData.get("V_soma", {}).items()]
    times = [list(sim.simData.get(key, [])) for key in ("spkt", "spkid")]
    parts = h.ParallelContext().py_gather((cells, *times, traces), 0)
if h.ParallelContext().id():
    h.ParallelContext().barrier()
    os._exit(0)
found = {}
every = [y for x in names.values() for y in (x if isinstance(x, list) else [x])]
if parts:
    cells, *times, traces = (sum(lists, []) for lists in zip(*parts))
    found["spike_time"], found["spike_cell"] = map(np.array, times)
    found["v"] = np.array([trace for key, trace in sorted(traces, key=lambda pair: pair[0])])
    own = np.isin(found["spike_cell"], cells)
    found["spike_time"], found["spike_cell"] = found["spike_time"][own], found["spike_cell"][own]
    told["cells"] = len(cells)
    told["dt"] = float(sim.cfg.dt)
elif "bmtk" in text:
    import glob, h5py
    from neuron import h
    place = max(glob.glob("output*/spikes.h5"), key=os.path.getmtime)
    report = os.path.join(os.path.dirname(place), "membrane_potential.h5")
    found["v"] = np.zeros((0, 0))
    if os.path.exists(report):
        with h5py.File(report) as file:
            found["v"] = next(iter(file["report"].values()))["data"][()]
    with h5py.File(place) as file:
        spikes = next(x for x in file["spikes"].values() if "timestamps" in x)
        found["spike_time"], found["spike_cell"] = spikes["timestamps"][()], spikes["node_ids"][()]
    told["cells"], told["dt"] = len(h.pysim.net.get_local_cells()), float(h.dt)
elif "bluepyopt" in sys.modules:
    found["v"] = np.array(responses)
    told["cells"], told["dt"] = len(responses), 0.025
    runs = np.loadtxt("steps", ndmin=2)
    told["steps"], told["ended"] = int(runs[:, 0].sum()), float(runs[:, 1].max())
    os.remove("steps")
elif "hnn_core" in text:
    network = [x for x in every if isinstance(x, hnn_core.Network)][-1]
    own = {gid for kind in network.cell_types for gid in network.gid_ranges[kind]}
    answer = network.cell_response
    found["spike_time"], found["spike_cell"] = (
        np.array([x for trial in lists for x in trial])
        for lists in (answer.spike_times, answer.spike_gids))
    kept = np.isin(found["spike_cell"], list(own))
    found["spike_time"], found["spike_cell"] = found["spike_time"][kept], found["spike_cell"][kept]
    found["v"] = np.concatenate([
        *(x.data["agg"] for x in every if isinstance(x, hnn_core.Dipole)),
        *(np.ravel(x.voltages) for x in network.rec_arrays.values()),
    ])
    told["cells"], told["dt"] = len(own), float(neuron.h.dt)
elif looked_at:
    found["v"], told["cells"], told["dt"] = np.array(looked_at), len(looked_at), float(h.dt)
else:
    cells = [x for x in every if hasattr(x, "somav") or hasattr(x, "vmem")]
    found["v"] = np.array([np.array(x.somav if hasattr(x, "somav") else x.vmem[0]) for x in cells])
    told["cells"], told["dt"] = len(cells), float(cells[0].dt)
np.savez(out, told=json.dumps(told), **found)
if os.environ.get("RANKS"):
    h.ParallelContext().barrier()
    os._exit(0)
"""


class FailedError(Exception):
    """A script did not run to its end, and why."""


def run(
    name: str, copy: Path, is_on: bool, device: str, python: str, word: str = ""
) -> dict[str, Any]:
    """Run a script in its folder, NUDGED, by CORE or RANKS; return its results."""
    out = copy / f"found-{int(is_on)}{word}.npz"
    out.unlink(missing_ok=True)
    env = {**os.environ, "MPLBACKEND": "agg", "NEURON_MODULE_OPTIONS": "-nogui"}
    env |= {"CLHINES_DEVICE": device, "CLHINES_NEURON": "always" if is_on else "0"}
    env |= {"XDG_CACHE_HOME": str(copy / "cache"), "NUDGED": "", "CORE": "", "RANKS": ""}
    env |= {word: "1"} if word else {}
    script = str(Path(SCRIPTS[name][1]).with_suffix(".py"))
    command = [python, "-c", CHILD, script, str(out), *GIVEN.get(name, [])]
    # `libmpi.so` itself may be a text for linkers
    libraries = sorted((Path(python).absolute().parents[1] / "lib").glob("libmpi.so*"))
    env |= {"MPI_LIB_NRN_PATH": str(libraries[-1])} if word == "RANKS" and libraries else {}
    try:
        if word == "RANKS":
            # if one rank fails, `mpi4py` ends the others
            command = [
                *child.mpiexec(record.cores(), python),
                python,
                "-m",
                "mpi4py",
                *command[1:],
            ]
        done = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, MissingError) as error:
        raise FailedError(str(error)) from None
    except subprocess.TimeoutExpired:
        raise FailedError(f"not done within {TIMEOUT:g} s") from None
    if not out.is_file():
        lines = [x for x in done.stderr.splitlines() if "Error" in x or "Exception" in x]
        raise FailedError(lines[-1] if lines else "nothing is said")
    with np.load(out) as file:
        return {**json.loads(str(file["told"])), **{k: file[k] for k in file if k != "told"}}


def spikes(found: dict[str, Any]) -> set[tuple[float, float]]:
    steps = np.rint(found["spike_time"] / found["dt"])
    return {*zip(found["spike_cell"].tolist(), steps.tolist(), strict=True)}


def compared(ours: dict[str, Any], neurons: dict[str, Any]) -> dict[str, Any]:
    row = {
        "cells": ours["cells"], "steps": ours["steps"],
        "seconds": ours["seconds"], "neuron_seconds": neurons["seconds"],
    }  # fmt: skip
    if ours.get("ended") and neurons.get("ended"):
        row |= {"ended": ours["ended"], "neuron_ended": neurons["ended"]}
    if "spike_time" in ours:
        row |= {"spikes": len(ours["spike_time"]), "neuron_spikes": len(neurons["spike_time"])}
        row["same_step"] = len(spikes(ours) & spikes(neurons))
    mine, theirs = ours["v"], neurons["v"]
    if mine.size and mine.shape == theirs.shape:
        row["dv"] = float(np.abs(mine - theirs).max())
    return row


def copied(name: str, folder: Path, copy: Path, python: str, core: bool) -> str:
    place, script, mechanisms = SCRIPTS[name]
    shutil.copytree(folder / place, copy, symlinks=True)
    why = ""
    if mechanisms:
        compiler = nrn.compiler(python)
        within, folder_name = copy / Path(mechanisms).parent, Path(mechanisms).name
        words = [compiler, "-coreneuron", folder_name]
        if core:
            done = subprocess.run(words, cwd=within, capture_output=True, text=True, check=False)
            errors = [x for x in (done.stdout + done.stderr).splitlines() if "rror" in x]
            if done.returncode:
                errors = (
                    [x for x in errors if ' :: "' in x] or errors or ["nrnivmodl -coreneuron fails"]
                )
                why = errors[0].rpartition("] :: ")[2].strip()
        if not core or why:
            shutil.rmtree(within / "x86_64", ignore_errors=True)
            subprocess.run([compiler, folder_name], cwd=within, capture_output=True, check=True)
    for word, content in GIVEN.get(name, {}).items():
        (copy / script).with_name(word.partition("=")[2]).write_text(content)
    if script.endswith(".ipynb"):
        cells = json.loads((copy / script).read_text("utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        kept = (line for line in text.splitlines() if not line.startswith(("%", "!")))
        (copy / script).with_suffix(".py").write_text("\n".join(kept), "utf-8")
    return why


def row_of(
    name: str,
    folder: Path,
    device: str,
    python: str,
    turns: int = TURNS,
    nudge: bool = False,
    ranks: bool | None = None,
) -> dict[str, Any]:
    """Run a script in both ways, in a copy of its folder.

    Parameters
    ----------
    turns : int
        Runs of each way whose least seconds count, after the first run here. CoreNEURON runs
        if there is more than one.
    nudge : bool
        Run NEURON nudged even if all spikes are in their steps; ``nudged_dv`` is the largest
        voltage change by the nudge.
    ranks : bool, optional
        Also run on MPI ranks; default: with more turns than one.
    """
    with tempfile.TemporaryDirectory() as where:
        copy = Path(where) / Path(SCRIPTS[name][0]).name
        has_core = name.startswith("netpyne") and turns > 1
        why = copied(name, folder, copy, python, has_core)
        try:
            neurons = run(name, copy, False, device, python)
        except FailedError as error:
            return {"name": name, "neuron_failed": str(error)}
        try:
            ours = run(name, copy, True, device, python)
            first = {"first_seconds": ours["seconds"], "first_ended": ours.get("ended")}
            if turns:
                ours = run(name, copy, True, device, python)
            for _ in range(turns - 1):
                for result, is_on in ((neurons, False), (ours, True)):
                    least(result, run(name, copy, is_on, device, python))
            row = {"name": name, **first, **compared(ours, neurons)}
            for key in () if turns else ("seconds", "ended"):  # the next run's times
                row.pop(key, None)
            most = max(row.get("spikes", 0), row.get("neuron_spikes", 0))
            if nudge or row.get("same_step", 0) != most:
                nudged = compared(run(name, copy, False, device, python, "NUDGED"), neurons)
                kept = {"same_step", "dv"} & nudged.keys()
                row |= {f"nudged_{key}": nudged[key] for key in kept} | {"off": "once a ms"}
        except FailedError as error:
            return {"name": name, "failed": str(error)}
        script = name, copy, device, python, neurons
        if turns > 1 if ranks is None else ranks:
            for is_on in (False, True) if name.startswith(WITH_RANKS) else ():
                row |= other(*script, "RANKS", is_on=is_on)
        if turns > 1:
            row |= other(*script, "CORE") if has_core and not why else {"core_failed": why}
    return row


def on_ranks(name: str, folder: Path, device: str, python: str) -> dict[str, Any]:
    """Run a script on ranks alone, in NEURON, and here twice, in a copy of its folder."""
    with tempfile.TemporaryDirectory() as where:
        copy = Path(where) / Path(SCRIPTS[name][0]).name
        copied(name, folder, copy, python, False)
        try:
            neurons, first, ours = (
                run(name, copy, is_on, device, python, "RANKS") for is_on in (False, True, True)
            )
        except FailedError as error:
            return {"name": name, "failed": str(error)}
        row = {"name": name, **compared(ours, neurons)}
        for key in ("seconds", "ended"):
            row[f"here_ranks_{key}"], row[f"ranks_{key}"] = row.pop(key), row.pop(f"neuron_{key}")
            row[f"here_ranks_first_{key}"] = first[key]
        return row


def least(found: dict[str, Any], again: dict[str, Any]) -> None:
    for key in ("seconds", "ended"):
        if found.get(key):
            found[key] = min(found[key], again[key])


def other(
    name: str, copy: Path, device: str, python: str, neurons: dict[str, Any], word: str,
    is_on: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return a row's part for a run by CORE or RANKS, beside a plain one in NEURON."""
    key = "here_" * is_on + word.lower()
    try:
        ran = run(name, copy, is_on, device, python, word)
    except FailedError as error:
        return {f"{key}_failed": str(error)}
    same = len(spikes(ran) & spikes(neurons))
    return {
        f"{key}_seconds": ran["seconds"], f"{key}_ended": ran["ended"], f"{key}_same_step": same
    }  # fmt: skip


def text(result: dict[str, Any]) -> str:
    lines = []
    for row in (r for r in result["rows"] if "cells" in r):
        cells = [
            f"{row['name']:<24} {row['cells']:>5}",
            *(f"{row[k]:>9,}" if k in row else f"{'-':>9}" for k in COUNTS),
            f"{row['dv']:>9.1e}" if "dv" in row else f"{'-':>9}",
            f"{row['steps']:>8,}",
            *(f"{row[k]:>{n}.1f}" if k in row else f"{'-':>{n}}" for k, n in SECONDS.items()),
        ]
        lines.append(" ".join(cells))
    head = (
        f"{'script':<24} {'cells':>5} {'spikes':>9} {'here':>9} {'same step':>9} {'apart':>9} "
        f"{'steps':>8} {'NEURON s':>8} {'Core s':>6} {'first s':>7} {'here s':>6}"
    )
    failed = [
        f"{row['name']}{where}: {row[key]}"
        for row in result["rows"]
        for key, where in FAILED.items()
        if row.get(key)
    ]
    notes = [f"Not run: {x}" for x in failed] + [
        f"{row['name']}, in NEURON with voltages the least amount off {row.get('off', AT_START)}: "
        f"{row['nudged_same_step']:,} of {row['neuron_spikes']:,} spikes in the same step"
        for row in result["rows"]
        if "nudged_same_step" in row
    ]
    return "\n".join([table.ruled(head, lines), *ended(result), *table.wrapped(notes)])


def ended(result: dict[str, Any]) -> list[str]:
    """Return the lines that say when the last spike is known, for results that have this."""
    lines = [
        f"{row['name']:<24} "
        + " ".join(f"{row[k]:>{n}.1f}" if row.get(k) else f"{'-':>{n}}" for k, n in ENDED.items())
        for row in result["rows"]
        if row.get("neuron_ended") or row.get("ranks_ended")
    ]
    if not lines:
        return []
    head = (
        f"{'s until the last spike':<24} {'NEURON':>8} {'ranks':>7} {'Core':>7} {'first':>7} "
        f"{'here':>6} {'first ranks':>11} {'here ranks':>10}"
    )
    without = [
        f"{name} {why}"
        for name, why in WITHOUT.items()
        if any(row["name"].startswith(name) for row in result["rows"])
    ]
    ranks = f"Ranks are {result['ranks']}, one for each core"
    text = f"{ranks}. " + "; ".join(without)
    return ["", table.ruled(head, lines), *table.wrapped([text])]


def main(arguments: Sequence[str]) -> int:
    parser = record.parser("frameworks", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scripts with such a word")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM")
    parser.add_argument("--result", default="", metavar="WORD", help="frameworks-WORD")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--short", action="store_true", help="each way once, and no CoreNEURON")
    ways.add_argument("--ranks", action="store_true", help="on MPI ranks alone")
    args = parser.parse_args(arguments)
    if "CLHINES_MODELS" not in os.environ:
        raise MissingError("expected CLHINES_MODELS=FOLDER, with netpyne, LFPy, BluePyOpt, bmtk")
    words = args.names or [""]
    names = [n for n in SCRIPTS if n not in WHOLE_NAMES and any(word in n for word in words)]
    names += [n for n in WHOLE_NAMES if args.ranks and n in words]
    queue = record.queue(args.device, ["float64"])
    folder, device = Path(os.environ["CLHINES_MODELS"]), queue.device.name.strip()
    how: dict[str, Any] = {"turns": 0, "ranks": True} if args.short else {}
    options = folder, device, args.python
    measure = on_ranks if args.ranks else partial(row_of, **how)
    rows = [measure(name, *options) for name in tqdm(names, disable=not names)]
    packages = "netpyne", "LFPy", "bluepyopt", "bmtk", "hnn-core", "efel", "neuron"
    versions = "from importlib.metadata import distributions as every\n"
    versions += "found = {d.name.removesuffix('-nightly'): d.version for d in every()}\n"
    versions += f"for name in {packages}: print(name, found.get(name, 'none'))"
    listing = subprocess.run(
        [args.python, "-c", versions], capture_output=True, text=True, check=False
    )
    versions_used = listing.stdout.split("\n")[:-1]
    result = {"versions": versions_used, "ranks": record.cores(), "rows": rows}
    kept = "-".join(filter(None, ("frameworks", args.result)))
    record.write(kept, queue, arguments, result, text, args.out)
    return 0
