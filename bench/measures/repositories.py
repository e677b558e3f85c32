"""Run the own scripts of public repositories with the switch on, beside NEURON.

    CLHINES_MODELS=FOLDER python -m bench repositories [NAME ...] [--stop MS] [--limit S]
                                         [--device SPEC] [--keep FOLDER] [--processes N]
                                         [--result WORD]

Each folder in the one that the variable names is a public repository, called as there: a number is
one of ModelDBRepository, OWNER+NAME is another's. Its script is the mosinit.hoc that lies highest,
init.hoc or main.hoc, or what `SCRIPTS` says; the .mod files of its folder are compiled, or else all
those below. The script is loaded as nrngui does, without windows. Where it only shows buttons they
are pressed, one after the other, and then *Init & Run*, until something has run. Two runs of a
script are compared, of up to MS each (NetPyNE's, too): spikes of all sections as they are recorded
in steps, their voltages, and states and other variables at the end. Where voltages differ by more
than 1e-6 mV, NEURON runs once more with each voltage the least amount off, and its other solver of
the matrix. A script that turns CVode's variable steps on is refused, and runs again with
``fixed_step=``, beside NEURON with fixed steps. Processes that take longer than S run once more for
a tenth of the time, and a script that needs the end of its run, and fails without, for all of it. A
repository that is not named keeps its row. ``--keep``: a folder for what is compiled and recorded;
a way that has run there is not run again. ``--result``: into a file of its own, as of repositories
that nobody had looked at. Scripts of hoc whose seed is the time since the machine began get the
same one in each way.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench import MissingError, nrn, record, table
from bench.measures.frameworks import FailedError
from bench.measures.model_runs import EQUAL_V
from bench.measures.repository_runs import FIXED_STEP

LIMIT, STOP, SHORTER, WHOLE = 90.0, 300.0, 0.1, 1e9  # s; ms; of the time; ms
NUDGES = 100.0  # times what an ulp does: of voltages that are apart by rounding
SPIKE = 0.0  # mV
SAID, NAME = 200, 40  # characters of an error, and of a repository's name
OTHERS = 1e-6  # of the largest value of a variable at the end
SMALL = 1e-9  # of values at the end: what is less than its rounding beside 1
LONGER = "takes longer than"
REFUSALS = "RejectedError", "InputError"
SOURCES = ".mod", ".inc", ".h"
EQUAL, NEAR, OWN = "equal", "as near as NEURON to itself", "by NEURON's own steps"
FIXED = ", by fixed_step="
REFUSED, DIFFERS, FAILED = "refused", "differs", "fails here"
PYTHON_2 = "it is of Python 2"
NOT_HERE = "NEURON runs nothing"
Found = tuple[dict[str, Any], dict[str, np.ndarray]]
UPTIME, SEED = b"/proc/uptime", "12345.00 1.00\n"  # what some scripts take for a seed
MORE = r"(?<=\d)[a-z]$"  # behind a number: another script of the repository
STARTS = "mosinit.hoc", "init.hoc", "main.hoc"


@dataclass(frozen=True)
class Script:
    """Where a script is in its repository.

    Attributes
    ----------
    path : str
    mechanisms : tuple of str
        Folders of .mod files; empty for those of the script's folder, or all below it.
    press : tuple of str
        Commands of its buttons; empty for those that the script has.
    """

    path: str
    mechanisms: tuple[str, ...] = ()
    press: tuple[str, ...] = ()


SCRIPTS = {
    "116094": Script("LongDendrite/mosinit.hoc"),
    "116094b": Script("ShortDendrite/mosinit.hoc"),
    "136715": Script("mosinit.hoc", (), ('load_file("Fig3A.ses")',)),
    "144007": Script("jneurosci2012/rake_final.hoc"),
    "144482": Script("mosinit.hoc", ("mechanism/mechanism_cell1",)),
    "153280": Script("superdeep.hoc"),
    "155705": Script("Two_netsPaper/main/Control_execute_network_bgk.hoc",
                     ("Two_netsPaper/mods/all_mods",)),
    "156120": Script("mosinit.hoc", ("mods/other_mods", "mods/stimulation", "mods/synapse")),
    "167499": Script("network_model_ensemble/evoked_activity.py", ("mechanisms",)),
    "168874": Script("cawave.py"),
    "182134": Script("real2.hoc"),
    "182758": Script("nrnfiles/Figures/Fig_1a.py", ("nrnfiles",)),
    "185355": Script("main.hoc"),
    "187615": Script("almog/mosinit.hoc"),
    "20212": Script("mechanism/mosinit.hoc"),
    "2016996": Script("HCN/spikes_withH.hoc", ("mod files",)),
    "2018023": Script("depol_stim.py", ("mod_files",)),
    "225311": Script("haymod_sumcurr/calcsumcurr_manyareagsynmediumtau_parts_fixeddt.py"),
    "229585": Script("protocols/03_positive_current_inj_py3.py", ("mod_files",)),
    "237469": Script("haymod/calcifcurves.py"),
    "240960": Script("FullModel/simulate_nap_EPSP_amplification.py"),
    "260653": Script("init-rgc-121203.hoc", ("mod",)),
    "260971": Script("L23PC/L23_PC_cADpyr229_1/run.py", ("L23PC/L23_PC_cADpyr229_1/mechanisms",)),
    "261435": Script("burst_elliptic.py"),
    "141273": Script("light_batch_FSdrive.hoc"),
    "144376": Script("demo_HPGA_saturating.py"),
    "147460": Script("Interneuron/NEURON_code/initxcstim.hoc"),
    "150024": Script("DCN_cip_axis_main.hoc"),
    "152197": Script("runMe.py"),
    "155601": Script("IClamp 50% gaps 30 SYNAPSES  tonicspill -74mV_0.6nA.hoc"),
    "156039": Script("mosinit.py"),
    "195569": Script("fig2a_run.py"),
    "2014816": Script("Figure5B_Example.hoc"),
    "206400": Script("main.py"),
    "230861": Script("simulation.hoc", ("mod",)),
    "235052": Script("Fig2.hoc", ("mods",)),
    "238892": Script("trivial.py"),
    "244679": Script("mosinitD.hoc"),
    "246546": Script("ValidationTests/IinjectionAtPyramidal.hoc", ("mechanisms",)),
    "257747": Script("1_I_V_relationship_dynamic.py"),
    "258643": Script("da.hoc", ("mechanisms",)),
    "266775": Script("example.py", ("mechanisms/single",)),
    "266799": Script("figure3/PC_synaptic_synaptic_drive.hoc", ("figure3/mod",)),
    "267056": Script("init_mechanical.py"),
    "64229": Script("parbulbNet/init.hoc"),
    "97917": Script("pardentategyrus/init.hoc"),
    "53965": Script("Cav32_C456S/mosinit.hoc"),
    "184172": Script("mosinit.py"),
    "189922": Script("mosinit.py"),
    "2016137": Script("Detailed_models/Theta_excitation.py"),
    "239421": Script("protocols/01_PFAA.py", ("mod_files",)),
    "257028": Script("CCTC_model/mosinit_Normal.hoc"),
    "265523": Script("SWR/SDprox1/init.py"),
    "266864": Script("fig1.hoc"),
    "267189": Script("Granule/mosinit_tDCS_synapse_189-1-33dw.hoc"),
    "267618": Script("example_simple.py"),
    "267680": Script("main.py"),
    "267694": Script("mouse_model/protocols/01_Spontaneuos_firing.py", ("mouse_model/mod_files",)),
    "128079": Script("ap.py", ("mod",)),
    "143114": Script("LSO_synaptic_input.hoc"),
    "143633": Script("master/TCmodel_short30mb.hoc"),
    "149174": Script("Fig 4/async.hoc"),
    "226422": Script("mosinit.py"),
    "241979": Script("step2_network_simulation.hoc"),
    "244412": Script("mosinit.py", ("mod_files",)),
    "245427": Script("init0.hoc"),
    "266498": Script("SingleCompartmentModels/hoc/Schild_1994_A-C-Fiber_Model.hoc",
                     ("SingleCompartmentModels/mod",)),
    "121628": Script("SwimmyGUI/nrnpgms/swmA24.hoc"),
    "135903": Script("recruit.hoc", ("mod",)),
    "151685": Script("run.py", ("mod",)),
    "184146": Script("mosinit.py", ("modfiles",)),
    "184304": Script("mosinit.py", ("modfiles",)),
    "185332": Script("model_demo.py", ("channels",)),
    "194897": Script("main.py"),
    "2001735": Script("Auto_start.py"),
    "2014822": Script("manual_run.py", ("mechanisms",)),
    "2015953": Script("Run.hoc"),
    "2017006": Script("Run_afferent_ramp_BF2014.hoc", ("MOD_BF_2014",)),
    "2017405": Script("run_CBG_MU_Pool_Model_to_SS.py"),
    "207695": Script("multi_glomeruli_integration.py", ("channels",)),
    "222725": Script("CaseStudy2-400HH/NEURON/example.py"),
    "234111": Script("demonstration.py"),
    "234241": Script("Wilmesetal_EJN2017.py", ("mod_files",)),
    "243841": Script("sensory_final.hoc"),
    "249404": Script("mosinit.py"),
    "262046": Script("run_CBG_Model_to_SS.py"),
    "266850": Script("Example1_single.hoc"),
    "267018": Script("Figure1A_3Dwave_time_contour.py"),
    "267103": Script("LUTsyn_example_main.py"),
    "267184": Script("Kim_Model.py"),
    "267201": Script("elif_neuron_impl.py"),
    "267311": Script("simctr.py", ("mechs/main-mech",)),
    "267754": Script("run_example.py"),
    "39948": Script("mosinit.py"),
    "144566": Script("claudia_pairing.py"),
    "2015423": Script("SAP generation/gen_SAP_10_all_weights.hoc"),
    "230326": Script("synaptic_train.py", ("mod",)),
    "266871": Script("generate_AN_spikes.py"),
    "267728": Script("RunDCFiber.py", ("mechanism",)),
    "87514": Script("model/main_demoMRF.hoc"),
    "Developer123321+Point-source-stimulation-of-dendrites-of-a-pyramidal-cell-in-Python": Script(
        "main.py"),
    "FernandoSBorges+Human_L23_NetPyNE": Script("init.py"),
    "FrancescoCavarretta+VMOptimizer": Script("quality_test.py"),
    "G-Node+pyneuron_documentation": Script("source/quickstart/src/part2.py"),
    "Kolelab+Chandelier-Pyramidal-NEURON-model": Script("experiments/steadycurrent.py", ("mod",)),
    "OpenSourceBrain+EbnerEtAl2019": Script("NEURON/TestSyn.py"),
    "OpenSourceBrain+NorenbergEtAl2010_DGBasketCell": Script("NEURON/Figure_2/run-BC6.hoc"),
    "Qinliuq+STN_reconstruction": Script("src/init.py", ("mod",)),
    "SchwartzNU+bSbC_ModelFiles": Script("HybridCell_ContrastResp.py"),
    "TarekRazwan+HL23PYR_AD": Script("test_Yao1000.py", ("mod",)),
    "TarekRazwan+HL23_Yao_Netpyne100": Script("init.py", ("mod",)),
    "agidon20+nrnsim": Script("computation_eq_consciousness/main.hoc", ("_nrnlib/_mod",)),
    "arnodelorme+single_spike_model": Script("basic_model.hoc"),
    "babicknell+Dendrites": Script("sim_example.py", ("mod_files",)),
    "bscoventry+InferiorColliculus_AM": Script("IC_SustainedFiring.py"),
    "carmen19882410+model": Script("init.py"),
    "compneuro+ReConv-LFP-modeling-algorithm-for-Neuron-Python": Script("mosinit.py"),
    "ec753+event_based_neuron": Script("scripts/generate_spiking_histories.py", ("mod",)),
    "fumikony+NewSample3": Script("main2.hoc"),
    "heitorsf+motornucleus": Script("mn_init.py", ("MOD",)),
    "joewgraham+spinalcord": Script("init.py", ("mod",)),
    "josemendez-villanueva+neuron_model_two": Script("init.py", ("mod",)),
    "lauramedlock+EMG-network": Script("init.py", ("mods",)),
    "lauramedlock+NetPyNE_Project": Script("init.py", ("mods",)),
    "mgiugliano+ThalamoCorticalNeurons": Script("first_test.py", ("mechanisms",)),
    "niknovikov19+netpyne_course_2021": Script("Proj_Izh_1cell_test_1.py"),
    "rodriguez-facundo+LASCON-project": Script("init.py", ("mod",)),
    "suny-downstate-medical-center+icns-netpyne": Script("init.py", ("mod",)),
    "thekerrlab+networkgeom": Script("networkgeom.py"),
    "EleBern+BallNStick": Script("ball_and_stick.py"),
    "OpenSourceBrain+Ferrante2009-DentateGyrusGranuleCell": Script("NEURON/test_granulecell.hoc"),
    "OpenSourceBrain+NEURONShowcase": Script("HHChannelAnalyser/HHanalyse.py"),
    "jaber-jaber+BG_Modelling": Script("test_simulation.py"),
    "jchen6727+test": Script("init.py"),
    "krishnizzle+OCNC_wang": Script("init.py"),
    "m9h+vc2008-netpyne": Script("src/init.py"),
    "rachweg+neuron_tutorials": Script("BallandStick1.py"),
    "risecourse+ball_and_stick_modeling": Script("ball_and_stick2.py"),
    "silee1103+Computational_neuron_Tutorial": Script("Yale/tutorial1.py"),
}  # fmt: skip


def script_of(name: str, folder: Path) -> Script | None:
    """Return the script of a repository that lies in a folder."""
    if name in SCRIPTS:
        return SCRIPTS[name]
    for start in STARTS:
        found = sorted(folder.rglob(start), key=lambda p: (len(p.parts), p))
        if found:
            return Script(str(found[0].relative_to(folder)))
    return None


def library(name: str, script: Script, folder: Path, kept: Path) -> str:
    """Compile the mechanisms of a script; return the library, empty for none. `FailedError`."""
    place = kept / name / "build"
    done = place / platform.machine() / "libnrnmech.so"
    here = (folder / script.path).parent
    folders = [folder / m for m in script.mechanisms]
    if not folders and any(here.glob("*.mod")):
        folders = [here]
    folders = folders or sorted({p.parent for p in here.rglob("*.mod")})
    sources = {p.name: p for f in folders for s in SOURCES for p in sorted(f.glob(f"*{s}"))}
    if not any(n.endswith(".mod") for n in sources):
        return ""
    if not place.is_dir():
        place.mkdir(parents=True)
        for source in sources.values():
            shutil.copy(source, place)
        made = subprocess.run(
            [nrn.compiler()], cwd=place, capture_output=True, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        (place / "build.log").write_text(made.stdout + made.stderr, "utf-8")
    if not done.is_file():
        lines = (place / "build.log").read_text("utf-8", "replace").splitlines()
        errors = [x for x in lines if re.search(r"\berror:|^Error|Couldn't", x)] or ["?"]
        raise FailedError(f"nrnivmodl: {errors[0].replace(str(place), '')[:120]}")
    return str(done.resolve())


def seed(copy: Path) -> None:
    """Let the scripts of hoc in a folder read `SEED` in place of the time since the start."""
    given = copy / "uptime"
    for source in copy.rglob("*.hoc"):
        text = source.read_bytes()
        if UPTIME in text and not source.is_symlink():
            source.write_bytes(text.replace(UPTIME, str(given).encode()))
            given.write_text(SEED, "utf-8")


def one_way(name: str, script: Script, folder: Path, way: str, stop: float, args: Any) -> Found:
    """Return what a script leaves in one way, in a process of its own. `FailedError`."""
    kept = Path(args.keep)
    out = (kept / name / f"{way}-{stop:g}.npz").resolve()
    failed = out.with_suffix(".failed")
    if not (out.is_file() or failed.is_file()):
        compiled = library(name, script, folder, kept)
        copy = kept / name / f"copy-{way}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        seed(copy)
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        env = {k: v for k, v in os.environ.items() if k != "DISPLAY"} | {"PYTHONPATH": path}
        env |= {"MPLBACKEND": "agg", "NEURON_MODULE_OPTIONS": "-nogui"}
        env |= {"CLHINES_DEVICE": args.device} if args.device else {}
        here, file = (copy / script.path).parent, Path(script.path).name
        words = [sys.executable, "-m", "bench", "measures.repository_runs", file, way, str(out)]
        words += ["--stop", f"{stop:g}", "--library", compiled]
        words += ["--press", *script.press] if script.press else []
        log = out.with_suffix(".log")
        with log.open("w") as file_:
            try:
                subprocess.run(
                    words, cwd=here, env=env, stdin=subprocess.DEVNULL, stdout=file_,
                    stderr=subprocess.STDOUT, timeout=args.limit, check=False,
                )  # fmt: skip
                if not out.is_file():
                    said = [x for x in log.read_text("utf-8", "replace").splitlines() if x.strip()]
                    failed.write_text(f"ends by itself: {(said or ['?'])[-1][:120]}", "utf-8")
            except subprocess.TimeoutExpired:
                failed.write_text(f"{LONGER} {args.limit:g} s", "utf-8")
        shutil.rmtree(copy, ignore_errors=True)
    if not out.is_file():
        raise FailedError(failed.read_text("utf-8"))
    with np.load(out) as data:
        return json.loads(str(data["said"])), {k: data[k] for k in data if k != "said"}


def spikes(v: np.ndarray) -> set[tuple[int, int]]:
    """Return the sections and steps in which voltages rise above `SPIKE`."""
    return {*zip(*(x.tolist() for x in np.nonzero((v[:, 1:] > SPIKE) & (v[:, :-1] <= SPIKE))),
                 strict=True)}  # fmt: skip


def apart(neurons: Found, ours: Found) -> dict[str, Any]:
    """Return how far the runs that both have are apart."""
    pairs = list(zip(neurons[0]["runs"], ours[0]["runs"], strict=False))
    theirs, mine = neurons[1], ours[1]
    row: dict[str, Any] = {
        "runs": len(pairs), "steps": sum(a["steps"] for a, _ in pairs), "dv": 0.0, "others": 0.0,
        "spikes": 0, "same_step": 0, "other": "v",
        "whole": [a["steps"] for a in neurons[0]["runs"]] == [b["steps"] for b in ours[0]["runs"]],
    }  # fmt: skip
    for k in range(len(pairs)):
        a, b = theirs[f"v{k}"], mine[f"v{k}"]
        size = min(a.shape[1], b.shape[1])
        a, b = a[:, :size], b[:, :size]
        first, second = spikes(a), spikes(b)
        row["spikes"] += max(len(first), len(second))
        row["same_step"] += len(first & second)
        row["dv"] = max(row["dv"], most(a, b))
        if not row["whole"]:
            continue
        ends = [n for n in theirs if n.startswith("end ") and n.endswith(f" {k}")]
        for name in ends:
            e, f = theirs[name], mine[name]
            if name.startswith("end v "):
                row["dv"] = max(row["dv"], most(e, f))
                continue
            off = most(e, f) / max(float(np.nanmax(np.abs(e), initial=0.0)), SMALL)
            if off > row["others"]:
                row |= {"others": off, "other": name.split()[1]}
    return row


def most(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; where one alone is no number it is infinite."""
    if a.shape != b.shape:
        return math.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    d = np.where(same, 0.0, np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b)))
    return float(np.nan_to_num(d, nan=math.inf).max(initial=0.0))


def outcome(
    name: str, script: Script, folder: Path, stop: float, args: Any, fixed: bool = False
) -> dict[str, Any]:
    """Return the row of a script that runs up to `stop` ms, both ways. `FailedError`."""
    first, second, third = ("fixed", "fixed_clhines", "fixed_nudged") if fixed else (
        "neuron", "clhines", "nudged")  # fmt: skip
    neurons = one_way(name, script, folder, first, stop, args)
    said = neurons[0]
    row = {"stop": stop, **{k: said[k] for k in ("pressed", "sections", "ended")}}
    row["ended"] = row["ended"].replace(f"{args.keep}/", "")[:SAID]
    if not said["runs"]:
        why = said["ended"] or "runs nothing by itself"
        return {**row, "outcome": NOT_HERE, "why": [why.replace(f"{args.keep}/", "")[:SAID]]}
    try:
        ours = one_way(name, script, folder, second, stop, args)
    except FailedError as error:
        return {**row, "outcome": FAILED, "why": [str(error)]}
    ended = ours[0]["ended"]
    row |= {"here": ours[0]["here"], "seconds": [said["seconds"], ours[0]["seconds"]]}
    refused = [x for x in REFUSALS if ended.startswith(x)]
    if refused and ended != said["ended"]:
        why = ended.removeprefix(f"{refused[0]}: ")
        if not fixed and "CVode: variable time steps" in why:
            again = outcome(name, script, folder, stop, args, fixed=True)
            return {**again, "fixed": True} if again["outcome"] != NOT_HERE else again
        return {**row, "outcome": REFUSED, "why": reasons(why.replace(f"{args.keep}/", ""))}
    if ended != said["ended"]:
        why = ended.replace(f"{args.keep}/", "")[:SAID] or "does not end as in NEURON"
        return {**row, "outcome": FAILED, "why": [why]}
    row |= apart(neurons, ours)
    exact = row["spikes"] == row["same_step"] and row["dv"] <= EQUAL_V and row["whole"]
    if exact and row["others"] <= OTHERS:
        return {**row, "outcome": EQUAL if row["here"] else OWN}
    nudged = one_way(name, script, folder, third, stop, args)
    row["nudged"] = apart(neurons, nudged)
    near = row["whole"] and row["dv"] <= max(NUDGES * row["nudged"]["dv"], EQUAL_V)
    near = near and row["others"] <= max(NUDGES * row["nudged"]["others"], OTHERS)
    return {**row, "outcome": (NEAR if row["here"] else OWN) if near else DIFFERS}


def row_of(name: str, folder: Path, args: Any) -> dict[str, Any]:
    """Run one repository's script; say why not where it cannot be."""
    repository = folder / re.sub(MORE, "", name)
    script = script_of(name, repository)
    if script is None:
        return {"name": name, "outcome": NOT_HERE, "why": ["no script of NEURON"]}
    row = {"name": name, "script": script.path}
    for stop in (args.stop, SHORTER * args.stop):
        try:
            found = outcome(name, script, repository, stop, args)
            if found["outcome"] == NOT_HERE and found["ended"]:  # it may need the end of its run
                found = outcome(name, script, repository, WHOLE, args)
            return {**row, **found}
        except FailedError as error:
            why = str(error).replace(f"{args.keep}/", "")
            row |= {"outcome": NOT_HERE, "why": [why]}
            if not why.startswith(LONGER):
                break
    return row


def reasons(why: str) -> list[str]:
    """Return what is refused, each once: the lines of a RejectedError, or one of another error."""
    lines = [x.strip() for x in why.splitlines() if x.strip()]
    listed = lines[1:] if len(lines) > 1 and lines[0].startswith("the model has") else lines[:1]
    return list(dict.fromkeys(listed))


def kind(reason: str) -> str:
    """Return a reason without the names in it and without its way out, to be counted."""
    plain = re.sub(r"^\d+ of \w+: |^(?!CVode|Vector|NetCon|PatternStim)\w+: ", "", reason)
    words = "record of|play into|NetCon of|POINTER|TABLE of|array of"
    plain = re.sub(rf"({words}) (?!a statement)[\w.\[\]]+", r"\1 ...", plain)
    plain = re.sub(r"'\w+'", "...", plain)
    plain = re.sub(r"\[\d+\]|, (in section|which is written).*| \(\S+:\d+\)", "", plain)
    return plain.split(";")[0].split(", which hoc")[0].split(", or stepped")[0].strip()


def failure(why: str) -> str:
    """Return why NEURON runs nothing, in a few words."""
    words = {
        "no script": "no script of NEURON", "nrnivmodl": "its .mod files do not compile",
        LONGER: "takes too long", "SyntaxError": PYTHON_2, "execfile": PYTHON_2,
        "by itself": "runs nothing by itself, nor by its buttons",
    }  # fmt: skip
    return next((words[w] for w in words if w in why), "its script ends with an error")


def counts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many scripts have each outcome, by whether steps were fixed by ``fixed_step=``."""
    found = Counter(r["outcome"] + (FIXED if r.get("fixed") else "") for r in rows)
    return {name: found[name] for name in sorted(found, key=lambda n: (-found[n], n))}


HEAD = (
    f"{'spikes':>6} {'same step':>9} {'mV apart':>8} {'others':>8} {'steps':>8} "
    f"{'NEURON s':>8} {'here s':>6}  pressed"
)


def line_of(row: dict[str, Any]) -> str:
    """Return the line of a script that ran both ways, without its name."""
    here = "fixed" if row.get("fixed") else "" if row["here"] else "NEURON's"
    return (
        f"{row['spikes']:>6} {row['same_step']:>9} {row['dv']:>8.1e} "
        f"{row['others']:>8.1e} {row['steps']:>8,} {row['seconds'][0]:>8.1f} "
        f"{row['seconds'][1]:>6.1f}  {' '.join([here, row['pressed']]).strip():.44}"
    ).rstrip()


def text(result: dict[str, Any]) -> str:
    """Return the tables."""
    rows = result["rows"]
    ran = [r for r in rows if "dv" in r]
    refused = Counter(k for r in rows if r["outcome"] == REFUSED for k in {*map(kind, r["why"])})
    without = Counter(failure(r["why"][0]) for r in rows if r["outcome"] == NOT_HERE)
    parts = [table.ruled("scripts  outcome", [f"{n:>7}  {o}" for o, n in counts(rows).items()])]
    for head, found in (("refused for", refused), ("NEURON runs nothing", without)):
        lines = [f"{n:>7}  {k:.88}" for k, n in found.most_common()]
        parts.append(table.ruled(f"scripts  {head}", lines))
    width = min(max([8, *(len(r["name"]) for r in ran)]), NAME)
    lines = [f"{r['name']:<{width}.{width}} {line_of(r)}" for r in ran]
    parts.append(table.ruled(f"{'script':<{width}} {HEAD}", lines))
    notes = [
        "mV apart: of voltages of each step and at the end. others: of states of segments and "
        "variables of point processes at the end, beside the largest value. fixed: by fixed_step="
        f"{FIXED_STEP:g}, beside NEURON's fixed steps. NEURON's: the switch leaves these steps "
        "alone. pressed: what a user does after the script, which runs nothing by itself.",
        *(
            f"{r['name']} {r['outcome']}{FIXED if r.get('fixed') else ''}: {why}"
            for r in rows if "dv" not in r for why in r["why"][:3]
        ),
        *(f"{r['name']} {r['outcome']}, {r['other']} most" for r in ran if r["outcome"] == DIFFERS),
    ]  # fmt: skip
    return "\n\n".join([*parts, "\n".join(table.wrapped(notes))])


def main(arguments: Sequence[str]) -> int:
    """Run the scripts and write ``repositories.json`` and ``.txt``."""
    parser = record.parser("repositories", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--stop", type=float, default=STOP, metavar="MS")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="S")
    parser.add_argument("--keep", default="", metavar="FOLDER")
    parser.add_argument("--result", default="", metavar="WORD")
    parser.add_argument("--processes", type=int, default=1, metavar="N")
    args = parser.parse_args(arguments)
    if "CLHINES_MODELS" not in os.environ:
        raise MissingError("expected CLHINES_MODELS=FOLDER, with folders of ModelDBRepository")
    folder = Path(os.environ["CLHINES_MODELS"])
    there = sorted(p.name for p in folder.iterdir() if p.is_dir())
    names = args.names or sorted({*there, *(n for n in SCRIPTS if re.sub(MORE, "", n) in there)})
    queue = record.queue(args.device, ["float64"])
    with tempfile.TemporaryDirectory() as where, ThreadPoolExecutor(args.processes) as pool:
        args.keep = str(Path(args.keep or where).resolve())
        found = list(tqdm(pool.map(lambda n: row_of(n, folder, args), names), total=len(names)))
    file = f"repositories-{args.result}" if args.result else "repositories"
    path = Path(args.out) / f"{file}-{record.slug(queue.device)}.json"
    old = json.loads(path.read_text("utf-8"))["rows"] if path.is_file() else []
    rows = {r["name"]: r for r in [*old, *found]}
    result = {
        "record": record.record(queue, "repositories", arguments),
        "outcomes": [{"outcome": o, "scripts": n} for o, n in counts([*rows.values()]).items()],
        "rows": [rows[n] for n in sorted(rows)],
    }  # fmt: skip
    record.write(file, queue, result, text(result), args.out)
    return 1 if any(r["outcome"] in (DIFFERS, FAILED) for r in found) else 0
