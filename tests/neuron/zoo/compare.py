"""Run the scripts of a folder of repositories in NEURON and with the switch, and print a table.

    python tests/neuron/zoo/compare.py FOLDER [NAME ...] [--stop MS] [--limit S] [--script PATH]
        [--coin SEED]
    python tests/neuron/zoo/compare.py FOLDER [NAME ...] --times ROUNDS

Each folder in FOLDER is a repository. Its script is the highest mosinit.hoc, init.hoc or main.hoc,
or `--script`; the .mod files of the script's folder are compiled, or else all below it. A script of
hoc that only shows buttons gets them pressed, then run(). Up to two runs of each script are
compared, of at most MS each: spikes by section and step, voltages in each step. Nothing is kept.
With a SEED, run() takes `PIECES` calls, and a coin decides who takes each.
The exit code is 1 if one differs or fails here alone.

With --times no results are compared: the script runs in NEURON and with the switch in turn, which
decides by itself who takes each call. Caches are empty at the beginning, so that the first runs of
a model have no kernels. A script is late if it takes more than 1.05 times NEURON's time and 0.2 s,
and very late from 1.3 times and 0.5 s on. `cpu` is processor time, which other programs on the
machine change little.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
STARTS = "mosinit.hoc", "init.hoc", "main.hoc"
MOST_RUNS, MOST_SECTIONS, MOST_BUTTONS = 2, 150, 4
PIECES = 5
IN_PIECES = f"""
    proc run() {{ local k, end
        running_ = 1
        stdinit()
        end = tstop
        for k = 1, {PIECES} continuerun(end*k/{PIECES})
    }}
"""
EQUAL_MV, SPIKE_MV = 1e-6, 0.0
BUTTON = re.compile(r'x(?:radio)?button\(\s*"[^"]*"\s*,\s*"((?:[^"\\]|\\.)*)"')
LOADED = re.compile(r'(?:load_file|xopen)\(\s*(?:1,\s*)?"([^"]+)"')
EQUAL, OWN, DIFFERS = "equal", "by NEURON's own steps", "differs"
REFUSED, FAILS, NOT_RUN = "refused", "fails here", "NEURON runs nothing"


class FailedError(Exception):
    """A script, or the compilation of its .mod files, does not end as it should."""


class Recorder:
    """Record voltages of each run, from NEURON's ``finitialize`` on; end after `MOST_RUNS`."""

    def __init__(self, h, stop, out):
        self.h, self.stop, self.out = h, stop, out
        self.runs, self.vectors, self.switch = [], [], None
        self.handler = h.FInitializeHandler(3, self.begin)

    def begin(self):
        self.end()
        if len(self.runs) >= MOST_RUNS:
            self.finish("")
        self.h.tstop = min(self.h.tstop, self.stop)
        sections = list(self.h.allsec())
        chosen = sections[:: max(1, len(sections) // MOST_SECTIONS)]
        self.vectors = [self.h.Vector().record(s(0.5)._ref_v) for s in chosen]

    def end(self):
        """Keep what the run has recorded, if it took steps."""
        steps = min(map(len, self.vectors), default=0)
        if steps > 2:
            self.runs.append(np.array([np.array(v)[:steps] for v in self.vectors]))
        self.vectors = []

    def finish(self, error):
        self.end()
        steps = self.switch.steps if self.switch else 0
        arrays = {f"v{k}": v for k, v in enumerate(self.runs)}
        np.savez(self.out, said=json.dumps({"error": error, "steps": steps}), **arrays)
        sys.stdout.flush()
        os._exit(0)  # windows and threads may stay


def buttons_of(path, depth=3):
    """Return the commands of the buttons in a hoc file, or in the first file that it loads."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    commands = [m[1].replace('\\"', '"') for m in BUTTON.finditer(text)]
    for name in LOADED.findall(text) if depth else ():
        commands = commands or buttons_of(Path(name), depth - 1)
    return [c for c in commands if "quit" not in c]


def load(h, script, recorder):
    """Load a script as nrngui does; press its buttons until something has run."""
    if script.endswith(".py"):
        sys.argv = [script]
        sys.path.insert(0, os.getcwd())
        code = compile(Path(script).read_text("utf-8", "replace"), script, "exec")
        exec(code, {"__name__": "__main__", "__file__": script})
        return
    h.load_file("nrngui.hoc")
    h.load_file(script)
    for button in ["", *buttons_of(Path(script))[:MOST_BUTTONS]]:
        if button:
            h(button)
        recorder.end()
        if not recorder.runs and any(True for _ in h.allsec()):
            h.run()
            recorder.end()
        if recorder.runs:
            return


def toss(seed):
    """Let a coin decide who takes each call."""
    from clhines.neuron.switch.cost import Accounts

    coin = np.random.default_rng(int(seed))
    Accounts.device_is_sooner = lambda *_: bool(coin.random() < 0.5)


def child(way, script, library, stop, seed, out):
    """Run one script, by "neuron" or by "switch", and write its voltages."""
    from neuron import h

    if library:
        h.nrn_load_dll(library)
    h.load_file("stdrun.hoc")
    recorder = Recorder(h, float(stop), out)
    if way != "neuron":
        import clhines

        is_decided = seed or way == "faster"
        recorder.switch = clhines.neuron.enable(when="faster" if is_decided else "always")
        if seed:
            toss(seed)
    if seed:
        h(IN_PIECES)
    error = ""
    try:
        load(h, script, recorder)
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    recorder.finish(error)


def script_of(folder):
    """Return the path to a repository's script, the highest in `STARTS`; None for none."""
    for start in STARTS:
        paths = sorted(folder.rglob(start), key=lambda p: (len(p.parts), p))
        if paths:
            return paths[0]
    return None


def compiled(script, place):
    """Compile the .mod files of a script; return the library, empty for none."""
    from bench import nrn

    here = script.parent
    beside = sorted(here.glob("*.mod"))
    sources = {p.name: p for p in beside or sorted(here.rglob("*.mod"))}
    if not sources:
        return ""
    place.mkdir()
    folders = {p.parent for p in sources.values()}
    for path in [*sources.values(), *(p for f in folders for p in [*f.glob("*.inc")])]:
        shutil.copy(path, place)
    return str(nrn.compiled(place))


def voltages(way, script, library, args, place):
    """Return one way's records for a script in a copy of its repository, and its last line."""
    out = place / f"{way}.npz"
    words = way, script.name, library, str(args.stop), args.coin, out
    command = [sys.executable, __file__, "--child", *words]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"}
    env |= {"NEURON_MODULE_OPTIONS": "-nogui"}
    try:
        done = subprocess.run(
            command, cwd=script.parent, env=env, stdin=subprocess.DEVNULL, timeout=args.limit,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"takes longer than {args.limit:g} s") from None
    last = (done.stderr.strip().splitlines() or ["nothing is said"])[-1]
    if not out.is_file():
        raise FailedError(f"ends by itself: {last}")
    with np.load(out) as data:
        said = json.loads(str(data["said"]))
        return said, [data[f"v{k}"] for k in range(len(data.files) - 1)], last


def seconds(way, script, library, args, place):
    """Return the wall time and the processor time of one way to run a script, s, and its steps."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said, _, _ = voltages(way, script, library, args, place)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said["steps"]


def lateness(here, neuron):
    """Return 2 if `here`, s, is very late beside `neuron`, 1 if late, else 0."""
    return int(here > 1.05 * neuron + 0.2) + int(here > 1.3 * neuron + 0.5)


def time_script(script, args, place):
    """Return a row with times: steps here, then wall and processor time in NEURON, first, next."""
    if script is None:
        raise FailedError("it has no script of NEURON")
    library = compiled(script, place / "mod")
    said, runs, _ = voltages("neuron", script, library, args, place)  # its files are read now
    if not runs:
        raise FailedError(said["error"] or "it takes no steps")
    rounds = [
        [seconds(way, script, library, args, place) for way in ("neuron", "faster")]
        for _ in range(args.times)
    ]
    neuron, here = zip(*rounds, strict=True)
    least = [min(t) for t in zip(*neuron, strict=True)]
    later = [min(t) for t in zip(*(here[1:] or here), strict=True)]
    return max(h[2] for h in here), least[:2], here[0][:2], later[:2]


def print_times(args, scripts):
    """Print the table of times; return 0."""
    from bench import MissingError

    caches = Path(tempfile.mkdtemp())
    for name in ("CLHINES_CACHE_DIR", "POCL_CACHE_DIR"):
        (caches / name).mkdir()
        os.environ[name] = str(caches / name)
    late, count = np.zeros((2, 2, 2), int), 0
    print(f"{'':<30} {'wall, s':^20} {'cpu, s':^20}")
    heads = ("NEURON", "first", "next") * 2
    print(f"{'repository':<30} {' '.join(f'{h:>6}' for h in heads)} {'steps':>8}  late")
    for name, script, place in scripts:
        try:
            steps, neuron, first, later = time_script(script, args, place)
        except (MissingError, FailedError) as error:
            print(f"{name:<30.30} {' '.join(str(error).split()):.69}", flush=True)
            continue
        row = [t[k] for k in (0, 1) for t in (neuron, first, later)]
        marks = [[lateness(t[k], neuron[k]) for t in (first, later)] for k in (0, 1)]
        late += np.array([[[m > 0, m > 1] for m in pair] for pair in marks])
        count += 1
        shown = " ".join(f"{t:6.2f}" for t in row)
        print(f"{name:<30.30} {shown} {steps:>8}  {marks}", flush=True)
    shutil.rmtree(caches)
    for k, what in enumerate(("wall", "cpu")):
        for j, when in enumerate(("first", "next")):
            print(f"{what}, {when}: {late[k, j, 0]} of {count} late, {late[k, j, 1]} very late")
    return 0


def spikes(v):
    """Return the sections and steps in which voltages rise above `SPIKE_MV`."""
    rises = (v[:, 1:] > SPIKE_MV) & (v[:, :-1] <= SPIKE_MV)
    return {(int(a), int(b)) for a, b in zip(*np.nonzero(rises))}


def compare(script, args, place):
    """Return a row of the table: outcome, spikes, spikes in the same step, mV apart, reason."""
    from bench import MissingError

    try:
        library = compiled(script, place / "mod")
        said, theirs, _ = voltages("neuron", script, library, args, place)
    except (MissingError, FailedError) as error:
        return NOT_RUN, 0, 0, 0.0, str(error)
    if not theirs:
        return NOT_RUN, 0, 0, 0.0, said["error"] or "it takes no steps"
    try:
        ours, mine, last = voltages("switch", script, library, args, place)
    except FailedError as error:
        return FAILS, 0, 0, 0.0, str(error)
    if ours["error"] != said["error"]:
        refused = ours["error"].startswith(("RejectedError", "InputError"))
        return REFUSED if refused else FAILS, 0, 0, 0.0, ours["error"]
    if [v.shape for v in theirs] != [v.shape for v in mine]:
        return DIFFERS, 0, 0, np.inf, "other numbers of steps"
    sets = [(spikes(a), spikes(b)) for a, b in zip(theirs, mine)]
    same = sum(len(a & b) for a, b in sets)
    count = sum(max(len(a), len(b)) for a, b in sets)
    apart = max(float(np.nanmax(np.abs(a - b), initial=0.0)) for a, b in zip(theirs, mine))
    finite = all(np.array_equal(np.isnan(a), np.isnan(b)) for a, b in zip(theirs, mine))
    equal = finite and same == count and apart <= EQUAL_MV
    outcome = (EQUAL if ours["steps"] else OWN) if equal else DIFFERS
    return outcome, count, same, apart, "" if outcome == EQUAL else last


def main(words):
    """Compare the repositories of a folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--stop", type=float, default=300.0, metavar="MS")
    parser.add_argument("--limit", type=float, default=90.0, metavar="S")
    parser.add_argument("--script", help="path in each repository")
    parser.add_argument("--coin", default="", metavar="SEED", help="decide each call at random")
    parser.add_argument("--times", type=int, metavar="ROUNDS", help="time the scripts")
    args = parser.parse_args(words)
    scripts = scripts_of(args)
    return print_times(args, scripts) if args.times else print_outcomes(args, scripts)


def scripts_of(args):
    """Yield each repository's name, the script in a copy of it or None, and a folder."""
    for name in args.names or sorted(p.name for p in args.folder.iterdir() if p.is_dir()):
        with tempfile.TemporaryDirectory() as where:
            copy = Path(where, "copy")
            shutil.copytree(args.folder / name, copy, ignore=shutil.ignore_patterns(".git"))
            yield name, copy / args.script if args.script else script_of(copy), Path(where)


def print_outcomes(args, scripts):
    """Compare the scripts and print the table; return 1 if one differs or fails here alone."""
    outcomes = []
    print(f"{'repository':<30} {'outcome':<22} {'spikes':>6} {'same step':>9} {'mV apart':>8}  why")
    for name, script, place in scripts:
        row = (NOT_RUN, 0, 0, 0.0, "it has no script of NEURON")
        if script is not None:
            row = compare(script, args, place)
        outcome, count, same, apart, why = row
        outcomes.append(outcome)
        why = " ".join(why.replace(str(place), "").split())
        print(
            f"{name:<30.30} {outcome:<22} {count:>6} {same:>9} {apart:>8.1e}  {why:.100}".rstrip()
        )
    return int(DIFFERS in outcomes or FAILS in outcomes)


if __name__ == "__main__":
    sys.path.append(str(ROOT))
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    sys.exit(main(sys.argv[1:]))
