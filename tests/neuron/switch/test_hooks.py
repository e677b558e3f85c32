"""The switch runs NEURON's own calls, from Python and hoc, here; compared with NEURON."""

import json
import os
import sys
from pathlib import Path

import pytest
from forked import found_by, result_of
from processes import run_python

import clhines
from clhines.core.errors import InputError

pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).parents[1] / "switch_program.py"
# as in test_run: NEURON's conductances are differences of currents, amplified by a spike's upstroke
TOLERANCE = 1e-9
STEPS = 480  # 12 ms
USES = {  # steps of `uses_program` that run here: ms times steps per ms
    "intervals": 20 * 40,
    "other_temperatures": (20 + 20 + 10) * 40,
    "other_steps": 20 * 40 + 20 * 20 + 5 * 20 + 5 * 40,
    "stops": (4 + 8 + 20) * 40,
    "fails": 20 * 40,  # a run that raises counts no step
    "goes_back": (8 + 8 + 4) * 40 + (15 - 12) * 40 - 2,  # two steps are NEURON's
    "grows": 4 * 20 * 40,
}


def told(*words, program=PROGRAM):
    return result_of(program, *words)


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_what_is_recorded_is_as_by_neuron(engine):
    """Compare voltages, spikes and the final time for each way to run a model."""
    result = told("ways", engine)
    assert len(result) == 7
    for way, one in result.items():
        loops = way == "in_turns"  # around fadvance(), for half of it
        assert one["steps"] == (STEPS / 2 if loops else STEPS), way
        assert one["spikes"] > 2 and one["off"] == 0, way
        assert one["worst"] < TOLERANCE, way


def test_the_switch_is_what_it_was_after_a_block():
    *steps, own, after, same = told("nesting", "reference")
    assert steps == [40, 0, 40, 40, 40, 0]
    assert own == after == [7, 0]  # a user's own continuerun() stays
    assert same


def test_what_is_refused_is_raised_or_run_by_neuron():
    result = told("refusals", "reference")
    wrong, engine = result["options"]
    assert wrong == "strict is 'no'; expected True or False"
    assert "engine" in engine and "nothing" in engine
    for way in ("by_run", "by_hoc", "by_psolve", "by_hoc_psolve"):
        message, t, steps, after = result[way]
        assert message.startswith("RejectedError: the model has 1 unsupported construct"), way
        assert "extracellular" in message and (t, steps, after) == (0, 0, 0), way
    said, reasons, solved, ran, steps, shown = result["default"]
    assert said.splitlines() == [f"clhines: stepped by NEURON: {reasons[0]}"]  # once
    assert reasons[0].startswith("the model has 1 unsupported construct: extracellular")
    assert len(reasons) == 1 and solved == ran == steps == 0
    on = "clhines switch, on: 0 steps run on the device; stepped by NEURON: "
    assert shown == on + reasons[0]
    assert result["wrong"] == "RuntimeError"
    assert result["solves"] == ["psolve not enough argum", *["bad stack access: expec"] * 2]
    assert "Python Callback failed" in result["raised"]  # as without the switch


SCRIPT = """
import sys
from neuron import h
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.L = soma.diam = 20
soma.insert(NAME)
if NAME == "extracellular":
    soma(0.5).xc[0] = -1
h.tstop = 5
h.run()
print(*sys.argv, round(h.t, 6))
"""


def run(tmp_path, name, *words, **more):
    (tmp_path / "script.py").write_text(SCRIPT.replace("NAME", repr(name)), "utf-8")
    path = os.pathsep.join(filter(None, sys.path))
    return run_python(*words, cwd=tmp_path, **{"PYTHONPATH": path, **more})


def test_command_line_runs_a_script_that_runs_its_model(tmp_path):
    command = ["-m", "clhines.cli", "simulate", "script.py", "--engine", "reference"]
    done = run(tmp_path, "hh", *command, "--json")
    own, report = done.stdout.split("\n", 1)
    assert own.startswith("script.py 5.0")
    assert json.loads(report)["steps"] == 200
    done = run(tmp_path, "extracellular", *command, "--strict")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "extracellular" in done.stderr.splitlines()[-1]
    for words in ([], ["-W", "ignore"]):
        done = run(tmp_path, "extracellular", *words, *command)
        assert not done.returncode and done.stdout == "script.py 5.0\n"
        lines = [x for x in done.stderr.splitlines() if x.startswith("clhines: ")]
        assert len(lines) == 1 and lines[0].startswith("clhines: stepped by NEURON: the model has")
    done = run(tmp_path, "hh", *command, "--", "-v", "--stop")
    assert done.stdout.startswith("script.py -v --stop 5.0"), done.stderr
    done = run(tmp_path, "hh", *command, "--check", "--strict")
    assert done.returncode == 2 and "expected no --check" in done.stderr.splitlines()[-1]


def test_progress_names_each_phase_of_a_run(tmp_path):
    """Progress lists reading, building and planning in this order; by default nothing."""
    command = ["-m", "clhines.cli", "simulate", "script.py", "--engine", "reference"]
    done = run(tmp_path, "hh", *command)
    assert not done.returncode and "clhines: " not in done.stderr
    done = run(tmp_path, "hh", *command, "--progress")
    said = [x for x in done.stderr.splitlines() if x.startswith("clhines: ")]
    phases = "reading NEURON", "converting mechanisms, 0 of 1", "making a network", "making a model"
    for line, words in zip(said, phases, strict=False):
        assert words in line and line.endswith(" ...")
    assert len(said) >= len(phases) and "%" not in done.stderr  # a run shorter than two seconds
    with pytest.raises(InputError, match="progress is 'yes'"):
        clhines.neuron.enable(progress="yes")


@pytest.mark.parametrize(("end", "code"), [("3", 3), ("", 0), ("'no'", 1)])
def test_command_line_ends_as_the_script_does(tmp_path, end, code):
    (tmp_path / "ends.py").write_text(SCRIPT.replace("NAME", "'hh'") + f"sys.exit({end})\n")
    done = run(tmp_path, "hh", "-m", "clhines.cli", "simulate", "ends.py", "--engine", "reference",
        "--json")  # fmt: skip
    assert done.returncode == code and json.loads(done.stdout.split("\n", 1)[1])["steps"] == 200
    assert ("clhines: no" in done.stderr) == (code == 1)
    (tmp_path / "ends.py").write_text(f"import sys\nsys.exit({end})\n")
    done = run(tmp_path, "hh", "-m", "clhines.cli", "simulate", "ends.py", "--check")
    last = f"clhines: ends.py has ended with status {code}; expected a model"  # before a run
    assert done.returncode == 2 or not code
    assert not code or done.stderr.splitlines()[-1] == last


def test_an_exception_of_any_class_is_one_line(tmp_path):
    (tmp_path / "ends.py").write_text("class Own(BaseException):\n    pass\n\n\nraise Own('x')\n")
    done = run(tmp_path, "hh", "-m", "clhines.cli", "simulate", "ends.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr  # as by Python
    assert done.stderr.splitlines()[-1] == "clhines: ends.py, line 5: Own: x"


POOL = """
import multiprocessing
from contextlib import suppress
from neuron import h
import clhines
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.insert("extracellular")
soma(0.5).xc[0] = -1
def score():
    with suppress(Exception):
        h.run()
if __name__ == "__main__":
    clhines.neuron.enable(engine="reference", strict=True)
    score()
    process = multiprocessing.get_context("fork").Process(target=score)
    process.start()
    process.join()
"""


def test_what_a_pool_may_drop_is_warned_of(tmp_path):
    """A pool like BluePyOpt's is warned of once; its processes do not repeat the warning."""
    (tmp_path / "pool.py").write_text(POOL, "utf-8")
    done = run(tmp_path, "hh", "pool.py")
    assert done.returncode == 0
    warning = "UserWarning: this model has not been run: the model has 1 unsupported construct"
    assert done.stderr.count(warning) == 1


HOC = """
load_file("stdrun.hoc")
create soma
soma { insert NAME L=20 diam=20 }
objref pc
pc = new ParallelContext()
{ pc.set_maxstep(10) stdinit() pc.psolve(3) }
print "solved to ", t
tstop = 5
run()
print "run to ", t
"""


def test_command_line_runs_a_script_of_hoc(tmp_path):
    command = ["-m", "clhines.cli", "simulate", "script.hoc", "--engine", "reference"]
    for name in ("hh", "extracellular xc[0]=-1"):
        (tmp_path / "script.hoc").write_text(HOC.replace("NAME", name), "utf-8")
        done = run(tmp_path, "hh", *command)
        if name == "hh":
            assert not done.returncode and "solved to 3" in done.stdout
            assert "run to 5" in done.stdout
            done = run(tmp_path, "hh", *command, "--json")
            assert json.loads(done.stdout[done.stdout.index("{") :])["steps"] == 320
        else:
            assert not done.returncode and "solved to 3" in done.stdout
            assert "run to 5" in done.stdout and "stepped by NEURON" in done.stderr
            done = run(tmp_path, "hh", *command, "--strict")
            assert done.returncode == 1 and "solved to" not in done.stdout
            assert "extracellular" in done.stderr.splitlines()[-1]
            assert "Traceback" not in done.stderr


TIMES = """
soma = make_section("soma", "hh")
pc = h.ParallelContext()
pc.set_maxstep(10)
v = h.Vector().record(soma(0.5)._ref_v)

def to_rest():
    h.finitialize(-60)
    h.dt, h.t = 10, -90
    for _ in range(9):
        h.fadvance()
    h.dt, h.t = 0.025, 0
    h.frecord_init()
    pc.psolve(2)
    return [h.t, *v]

truth = to_rest()
found, said = [], []
with clhines.neuron.enable(engine="reference", strict=True):
    found = to_rest()
    for t in (-2, 7):
        h.finitialize(-60)
        pc.psolve(1)
        h.t = t
        try:
            pc.psolve(3)
        except (clhines.InputError, RuntimeError) as error:
            said.append(str(error))
    times, at_times = h.Vector([0.5]), h.Vector()
    at_times.record(h._ref_t, times)
    h.finitialize(-60)
    said.append(refusal(pc.psolve, 1))
    h.continuerun(1)
    said.append(0.4 < at_times[0] < 0.51)
worst = max(abs(a - b) for a, b in zip(truth, found))
print(json.dumps([len(truth), len(found), worst, said]))
"""


def test_psolve_goes_on_from_the_time_of_the_last_step():
    """NEURON's psolve continues from there whatever h.t is, unless dt changes as well."""
    count, own, worst, said = result_of(TIMES)
    assert count == own == 2 + 80 and worst < TOLERANCE
    assert (
        "Vector.record of h.t at given times, in psolve, where NEURON's h.t" in said[2] and said[3]
    )
    assert said[0].startswith("psolve goes on from ")
    assert "h.t is -2 ms, as h.t or nthread has been set since NEURON's last step" in said[0]
    assert "Arg out of range" in said[1]  # NEURON's own


PAST = """
soma = make_section("soma", "hh")
pc = h.ParallelContext()
pc.set_maxstep(10)

def said(stop, t=None):
    h.finitialize(-65)
    pc.psolve(2)
    if t is not None:
        h.t = t
    try:
        pc.psolve(h.t if stop is None else stop)
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "ran"

stops = None, 1.5, 0, -3, 2e9, float("inf")
truth = [said(stop) for stop in stops]
rows = [truth]
for strict in (False, True):
    with clhines.neuron.enable(engine="reference", strict=strict) as on:
        rows.append([said(stop) for stop in stops])
        rows.append([said(float("nan")), said(1.5, 1)])  # NEURON ends the process in these
        rows.append([on.steps, on.reasons])
print(json.dumps(rows))
"""


def test_psolve_to_the_past_raises_as_in_neuron():
    truth, *rows = result_of(PAST)
    assert truth[0] == "ran" and len({*truth[1:]}) == 1 and "Arg out of range" in truth[1]
    for own, ends, counts in (rows[:3], rows[3:]):
        assert own == truth and counts == [8 * 80, []]
        for line, stop in zip(ends, ("nan", "1.5"), strict=True):
            assert line == (
                f"NeuronError: psolve({stop}): NEURON's last step ends at 2 ms; expected a later "
                "time, or h.finitialize() before"
            )


DELAY = """
soma = make_section("soma", "hh")
pc = h.ParallelContext()

def said(dt):
    h.finitialize(-65)
    h.dt = dt
    try:
        pc.psolve(22)
    except RuntimeError as error:
        return str(error)
    return "ran"

found = [said(0.025)]
with clhines.neuron.enable(engine="reference", strict=True):
    found.append(said(0.025))
    pc.set_maxstep(10)
    found += [said(11), said(0.025)]
"""


def test_psolve_raises_as_in_neuron_without_a_delay_of_a_step():
    """Before ``pc.set_maxstep``, and for steps longer than its result, NEURON takes no steps."""
    truth, *own = found_by(DELAY)
    assert "mindelay is 0 (or less than dt" in truth and own == [truth, truth, "ran"]


SHORT = """
soma, pc = make_section("soma", "hh"), h.ParallelContext()
pc.set_maxstep(10)
times, states = h.Vector().record(h._ref_t), []

def taken(steps):
    states.clear()
    h.finitialize(-65)
    h.CVode().event(0.03, lambda: states.append(h.StateTransitionEvent(2)))
    pc.psolve(steps * h.dt)
    return [h.t, *times]

found = []
for steps in (3, 5, 6, 9):
    truth = taken(steps)
    with clhines.neuron.enable(engine="reference") as on:
        found.append([taken(steps) == truth, on.steps, on.reasons])
"""


def test_psolve_repeats_no_step_if_neuron_takes_its_last_ones():
    """From the third step on the model is refused."""
    for same, steps, (reason,) in found_by(SHORT):
        assert "StateTransitionEvent" in reason and same and steps == 2


LEFT = """
from clhines.core.errors import BuildError, DeviceMemoryError, InputError, SimulationError
from clhines.neuron import entry, kept
soma = make_section("soma", "hh", L=20, diam=20)
clamp, noise = h.IClamp(soma(0.5)), h.IClamp(soma(0.5))
clamp.amp, clamp.dur, noise.dur = 0.3, 100, 100
random = h.Random()
random.Random123(1, 2, 3)
random.uniform(0, 0.1)
random.play(noise._ref_amp)
stim, synapse = h.NetStim(), h.ExpSyn(soma(0.5))
stim.interval, stim.noise, stim.number, stim.start = 1, 1, 100, 0
stim.noiseFromRandom123(4, 5, 6)
netcon, times, v = h.NetCon(stim, synapse), h.Vector(), h.Vector().record(soma(0.5)._ref_v)
netcon.weight[0], netcon.delay = 0.01, 0.3
netcon.record(times)
pc, cvode = h.ParallelContext(), h.CVode()
pc.set_maxstep(10)

def refuse():  # after some steps: from then on there is what is refused
    global event
    event = h.StateTransitionEvent(2)

def by_run(at):
    handler = h.FInitializeHandler(lambda: cvode.event(at, refuse)) if at else None
    h.tstop = 8
    h.run()

def by_psolve(at):
    handler = h.FInitializeHandler(lambda: cvode.event(at, refuse)) if at else None
    h.finitialize(-65)
    pc.psolve(3)
    pc.psolve(8)

def taken(way, at=0):
    global event
    event = None
    random.seq(0), stim.ranvar.set_seq(0)
    way(at)
    return np.array([*v, *times, h.t, random.seq(), soma(0.5).m_hh])

def raises(error):
    def fail(*_, **__):
        raise error
    return fail

found = []
faults = {
    "_simulation": BuildError("planted: no kernel"), "read_model": InputError("planted: no model"),
    "network_of": DeviceMemoryError("planted: no memory"),
    "check_values": InputError("planted: at the end"), "at 4": None,
}
for way in (by_run, by_psolve):
    for name, error in faults.items():
        at = 4.01 if error is None else 0
        truth = taken(way, at)
        module = kept if hasattr(kept, name) else entry
        if not at:
            own, _ = getattr(module, name), setattr(module, name, raises(error))
        with clhines.neuron.enable(engine=sys.argv[1]) as on:
            got = taken(way, at)
        if not at:
            setattr(module, name, own)
        off = float(np.abs(truth - got).max()) if len(truth) == len(got) else -1.0
        found.append([way.__name__, name, off, on.steps, on.reasons])
ends, event = [], None
for error in (SimulationError("planted", 0, 0, 0.0, None), KeyboardInterrupt("planted")):
    own, entry._simulation = entry._simulation, raises(error)
    with clhines.neuron.enable(engine=sys.argv[1]) as on:
        try:
            h.run()
        except BaseException as ended:
            ends.append([ended is error, h.t, on.reasons])
    entry._simulation = own
print(json.dumps([found, ends]))
"""


def test_neuron_takes_a_call_from_the_steps_that_it_has():
    """At once, and after steps; NEURON's random streams continue at their present positions."""
    result, ends = result_of(LEFT, "reference")
    assert len(result) == 10
    for way, name, off, steps, (reason, *more) in result:
        assert 0 <= off < TOLERANCE and not more, (way, name)
        late = name == "at 4"
        assert (4 * 40 < steps < 4.2 * 40) if late else not steps, (way, name, steps)
        assert ("StateTransitionEvent" if late else "planted") in reason, (way, name)
        assert late or off == 0, (way, name)
    assert ends == [[True, 0, []]] * 2


LOOPS = """
soma = make_section("soma", "hh", L=20, diam=20)
clamp, v = h.IClamp(soma(0.5)), h.Vector().record(soma(0.5)._ref_v)
clamp.amp, clamp.dur = 0.3, 100
h("proc loop() { while (t < $1) { fadvance() } }")
h("proc continuerun_of_mine() { while (t < $1) { step() } }")

def by_python():
    while h.t < 4:
        h.fadvance()

ways = {
    "python": by_python, "hoc": lambda: h.loop(4),
    "steprun": lambda: [h.steprun() for _ in range(160)],
    "mine": lambda: h.continuerun_of_mine(4), "after": lambda: (h.continuerun(2), by_python()),
    "before": lambda: (h.loop(2), h.continuerun(4)), "variable": lambda: h.CVode().solve(4),
    "batch": lambda: h.batch_run(4, 0.1),
}

def taken(way, name):
    h.CVode().active(name == "variable")
    h.finitialize(-65)
    way()
    h.CVode().active(0)
    return [*v, h.t]

found = []
for name, way in ways.items():
    truth = taken(way, name)
    with clhines.neuron.enable(engine="reference", strict=True) as on:
        got = taken(way, name)
    off = max(abs(a - b) for a, b in zip(truth, got)) if len(truth) == len(got) else -1
    found.append([name, off, on.steps, on.reasons])
print(json.dumps(found))
"""


def test_neuron_takes_loops_around_fadvance_and_one_line_says_so():
    loop = "a loop around fadvance(), in place of h.continuerun()"
    others = {"variable": "CVode.solve()", "batch": "batch_run()"}
    for name, off, steps, reasons in result_of(LOOPS):
        mixed = name in ("after", "before")
        assert 0 <= off < (TOLERANCE if mixed else 1e-300), name
        assert steps == 80 * mixed, name
        assert reasons == [others.get(name, loop)], name


CHILD = """
import multiprocessing, sys
from neuron import h
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.insert("hh")

def score(stop):
    h.tstop = stop
    h.run()
    return h.t

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(score, [1.0, 2.0]))
    sys.exit(CODE)
"""


@pytest.mark.parametrize("code", [0, 4])
def test_command_line_ends_as_a_script_does_whose_children_run(tmp_path, code):
    (tmp_path / "child.py").write_text(CHILD.replace("CODE", str(code)), "utf-8")
    done = run(tmp_path, "hh", "-m", "clhines.cli", "simulate", "child.py")
    assert done.returncode == code, done.stderr
    assert "has run nothing" not in done.stderr and done.stdout.startswith("[")


ENDS = """
from neuron import h
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.L = soma.diam = 20
soma.insert("hh")
stim, synapse = h.NetStim(), h.ExpSyn(soma(0.5))
stim.start, stim.number, stim.interval = 0, 100, 0.5
netcon = h.NetCon(stim, synapse)
netcon.weight[0] = 0.5
spikes = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
pc = h.ParallelContext()
pc.set_maxstep(10)
h.finitialize(-65)
h.tstop = 5
try:
    RUN
except Exception:
    pass
open("results", "w").write("a shorter run")
"""
LOOP = "a loop around fadvance(), in place of h.continuerun(): stepped by NEURON\n"


@pytest.mark.parametrize(
    ("call", "listed"),
    [
        ("h.run()", "the device can run the whole model\n"),
        ("h('run()')", "the device can run the whole model\n"),
        ("pc.psolve(5)", "the device can run the whole model\n"),
        ("h.batch_run(5, 1)", "batch_run(): stepped by NEURON\n"),
        ("h.fadvance()", LOOP),
        ("h.CVode().solve(5)", "CVode.solve(): stepped by NEURON\n"),
    ],
)
def test_check_ends_a_script_at_its_first_run(tmp_path, call, listed):
    """The script's later work, such as writing results, does not take place."""
    (tmp_path / "ends.py").write_text(ENDS.replace("RUN", call), "utf-8")
    command = ["-m", "clhines.cli", "simulate", "ends.py"]
    done = run(tmp_path, "hh", *command, "--check")
    assert done.stdout == listed and done.returncode == int("NEURON" in listed), done.stderr
    assert "ends.py, line 17: the script ends here, at its first run" in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_device_that_does_not_exist_is_an_error(tmp_path):
    for words, more in (["--device", "nowhere"], {}), ([], {"CLHINES_DEVICE": "nowhere"}):
        command = ["-m", "clhines.cli", "simulate", "script.py", "--when", "always", *words]
        done = run(tmp_path, "hh", *command, **more)
        assert done.returncode == 1 and "='nowhere' matches no device" in done.stderr
    with pytest.raises(InputError, match="engine='foo'; expected auto, "):
        clhines.neuron.enable(engine="foo")


BLOCKS = """
from neuron import h
import clhines
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.insert("hh")
blocks = [clhines.neuron.enable(when="never")]
for engine, stop in (("reference", 1), ("reference", 3)):
    with clhines.neuron.enable(engine=engine) as block:
        h.finitialize(-65)
        h.continuerun(stop)
    blocks.append(block)
h.continuerun(4)
print(*[block.steps for block in blocks])
"""


def test_each_block_counts_its_own_steps(tmp_path):
    (tmp_path / "blocks.py").write_text(BLOCKS, "utf-8")
    assert run(tmp_path, "hh", "blocks.py").stdout == "160 40 120\n"


def test_environment_variable_turns_the_switch_on(tmp_path):
    """With a site module that imports clhines, a script needs no line of its own."""
    (tmp_path / "sitecustomize.py").write_text("import clhines\n", "utf-8")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for value, ran in (("always", 200), ("1", 0), ("never", 0), ("0", 0)):
        words = ["-X", "importtime", "script.py"]
        done = run(tmp_path, "hh", *words, PYTHONPATH=path, CLHINES_NEURON=value)
        assert not done.returncode, done.stderr[-2000:]
        assert ("clhines.simulator.simulation" in done.stderr) == bool(ran)
    done = run(tmp_path, "hh", "-c", "import clhines", CLHINES_NEURON="yes")
    assert done.stderr.splitlines()[-1].endswith(
        "CLHINES_NEURON is 'yes'; expected 1, 0, faster, always or never"
    )


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_fixed_steps_in_place_of_variable_ones_are_neurons_fixed_steps(engine):
    result = told(engine, program=PROGRAM.with_name("fixed_program.py"))
    assert result["spikes"] > 2 and result["variable"]["worst"] > 1e-3
    for way in ("by_run", "by_switch", "again"):
        assert result[way]["worst"] < TOLERANCE, way
        assert result[way]["active"] == 0
        said = "CVode's variable steps are off: the model runs by fixed steps of 0.05 ms"
        assert result[way]["warnings"] == ([said] if way != "again" else [])
    active, zero, negative, word, inside = result["refused"]
    for said in (active, *result["in_no_step"]):
        assert "CVode: variable time steps" in said and "fixed_step" in said
    assert zero == "fixed_step is 0 ms; expected more than 0"
    assert negative == "fixed_step is -1 ms; expected more than 0"
    assert word.startswith("fixed_step") and inside.startswith("fixed_step: CVode's variable steps")


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_code_of_cvode_events_runs_in_a_run_as_in_neuron(engine):
    """Compare records, call times and changes by the code with NEURON, for two ways to run."""
    result = told(engine, program=PROGRAM.with_name("statements_program.py"))
    assert len(result) == 20
    for name, one in result.items():
        assert one["worst"] < TOLERANCE and one["calls"], name
        changes = name.split()[0] in ("clamp", "voltage", "state", "weight", "event", "stop")
        assert (one["effect"] > 1e-3) == changes, name
    assert 7.2 < result["stop plain"]["end"] < 7.4
    assert result["note plain"]["calls"] == 9
    for name in "hoc", "again":  # code that changes nothing costs no simulation
        assert result[f"{name} by_psolve"]["sims"] == 0


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_run_ends_as_in_neuron_where_code_makes_its_steps_shorter(engine):
    """It ends half an old step before the stop time; `psolve` adopts the new step later."""
    result = told(engine, "finer", program=PROGRAM.with_name("statements_program.py"))
    assert result["worst"] < TOLERANCE and result["rows"] > 600
    assert result["psolve"].startswith("h.dt has been set to 0.0125 ms in psolve")


def test_code_of_cvode_events_that_cannot_be_run_is_refused():
    result = told("refused", program=PROGRAM.with_name("statements_program.py"))
    point, none, code, nested = result
    assert point.startswith("CVode.event with a statement and a point process, at t = 2.99")
    assert none == [] and nested == "RuntimeError"
    assert code.startswith("CVode.event with a statement, at t = 3 ms") and "neuron.run" in code


def test_neuron_steps_models_whose_sources_and_vectors_call_code():
    """A line names the reason; the code's reads and changes equal NEURON's bit by bit."""
    result = told("auto", "called", program=PROGRAM.with_name("statements_program.py"))
    record, play = "NetCon.record of a statement or a function", "Vector.play of a statement"
    for name, (reasons, same, calls) in result.items():
        assert same and calls, name
        assert len(reasons) == 1 and (play if "plays" in name else record) in reasons[0], name


def test_a_voltage_that_runs_off_is_told_of():
    """The voltage recovers and is not recorded, but NEURON's result is rounding error.

    From 2^20 mV on, v + 0.001 mV, which NEURON uses for conductances, is rounded by 2^-33 mV. This
    is 2^-23 of the difference: as coarse as float32.
    """
    result = told(program=PROGRAM.with_name("runaway_program.py"))
    assert abs(result["back"]) < 100
    for way in ("whole", "pieces", "changed"):  # once in a run
        assert len(result[way]) == 1, way
        assert result[way][0].startswith("voltages run off: wild(0.5) (gid 7), to "), way
    assert result["positive"] == []
    assert result["ignored"] == [f"clhines: {result['whole'][0]}"]
    assert result["recorded"][0].startswith("voltages run off: calm(0.5), to 3e+06 mV")


def test_what_scripts_do_between_runs_is_as_in_neuron():
    """Compare sums of voltages and spike times, and raised errors, after each run."""
    result = told(program=PROGRAM.with_name("uses_program.py"))
    for use, steps in USES.items():
        truth, got, here = result.pop(use)
        assert here == steps, use
        assert len(truth) == len(got) > 1 and truth[-1][2] > 1, use
        for (said, *expected), (is_said, *values) in zip(truth, got, strict=True):
            assert said == is_said, use
            allowed = TOLERANCE * max(expected[3], 1)  # each of these rows, and a time
            assert max(abs(a - b) for a, b in zip(expected, values, strict=True)) < allowed, use
    before, refused, is_used, after = result.pop("variable_steps")
    assert "CVode: variable time steps" in refused and "expected h.cvode_active(0)" in is_used
    assert before[0] == after[0] == "ran"
    zero, same, less, also, after = result.pop("steps_of_nothing")
    assert zero == same == "h.dt is 0 ms; expected more than 0"
    assert less == also == "h.dt is -0.025 ms; expected more than 0"
    assert after[0] == "ran" and not result


ENDED = """
from neuron import h
import clhines
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.insert("hh")
other = h.Section(name="other")
other.connect(soma(1))
pc = h.ParallelContext()
pc.set_maxstep(10)

def below_zero():
    h.stdinit()
    h.t = -0.5
    h.continuerun(-0.4)
    pc.psolve(0.1)
    return round(h.t, 9)

def variable_steps():
    h.CVode().active(1)
    other.nseg = 1
    h.stdinit()
    h.continuerun(1)
    other.nseg = 7
    h.continuerun(2)
    return h.t, other(0.5).v

ways = below_zero, variable_steps
expected = [way() for way in ways]
h.CVode().active(0)
clhines.neuron.enable(engine="reference")
print(expected == [way() for way in ways])
"""


def test_calls_below_zero_and_with_variable_steps_do_not_end_the_process():
    assert run_python("-c", ENDED).stdout.split()[-1] == "True"


AS_NEURON = """
soma, dend = make_section("soma", "hh"), make_section("dend", "pas")
dend.connect(soma(1))
pc, cvode = h.ParallelContext(), h.CVode()
pc.set_maxstep(10)
h("proc hoc_run() { continuerun(t + 1) }")
gathered = []

def called():
    gathered.append(reads().v)  # no `v`: refused after NEURON's first step

def reads():
    return h.cas()(0.5)

def refused_in_groups():
    h.steps_per_ms, h.dt = 40, 0.01
    cvode.extra_scatter_gather(0, called)
    h.tstop = 4.512
    h.run()
    cvode.extra_scatter_gather_remove(called)
    h.dt = 0.025
    return h.t, soma.v

def refused_in_the_last_step():
    h.stdinit()
    h.continuerun(3.15)
    cvode.extra_scatter_gather(0, called)
    pc.psolve(h.t + 0.025)
    cvode.extra_scatter_gather_remove(called)
    return h.t, soma.v

def stopped():
    h.stdinit()
    h.stoprun = 1
    pc.psolve(0.06)
    h.stoprun = 0
    return h.t, soma.v

def nested():
    h.stdinit()
    cvode.event(0.4, lambda: h.fadvance())
    pc.psolve(1)
    return h.t, soma.v

def failing(call):
    h.finitialize(-65)
    cvode.event(0.5, lambda: 1 / 0)
    try:
        said = call()
    except Exception as error:
        said = type(error).__name__
    return said, h.t, soma.v

def deleted():
    clamp = with_values(h.IClamp(soma(0.5)), dur=9, amp=0.2)
    h.finitialize(-65)
    h.continuerun(0.1)
    h.t = 1.333
    h.continuerun(2)  # refused
    clamp = None
    h.continuerun(3)
    first = h.List("IClamp").count(), soma.v
    clamp = with_values(h.IClamp(soma(0.5)), dur=9, amp=0.2)
    failing(lambda: h.continuerun(1))
    clamp = None
    return *first, h.List("IClamp").count()

def set_between_played_values():
    clamp, times = with_values(h.IClamp(soma(0.5)), dur=9), h.Vector([2, 4])
    values = h.Vector([0.1, 0.2])
    values.play(clamp._ref_amp, times)
    h.finitialize(-65)
    cvode.event(0.5, lambda: setattr(clamp, "amp", 0.24))
    h.continuerun(3)
    return h.t, soma.v, clamp.amp

def loop_of_sections():
    h.finitialize(-65)
    soma.connect(dend(1))
    try:
        h.continuerun(1)
    except RuntimeError as error:
        said = str(error)
    soma.disconnect()
    return said

ways = {
    "groups": refused_in_groups, "last": refused_in_the_last_step, "stopped": stopped,
    "nested": nested, "played": set_between_played_values,
    "text": lambda: failing(lambda: h("continuerun(1)")),
    "solve": lambda: failing(lambda: pc.psolve(1)),
    "proc": lambda: failing(lambda: h("hoc_run()")),
    "method": lambda: failing(lambda: h.hoc_run()), "deleted": deleted, "loop": loop_of_sections,
}
truth = {name: way() for name, way in ways.items()}
with clhines.neuron.enable(engine="reference") as on:
    got = {name: way() for name, way in ways.items()}
    h.finitialize(-65)
    cvode.event(0.5, "celsius = 20")
    try:
        pc.psolve(1)
    except clhines.InputError as error:
        said = str(error)
print(json.dumps([truth, got, on.steps, on.reasons, said]))
"""


def test_calls_that_fail_or_are_refused_end_as_in_neuron():
    truth, got, steps, reasons, said = result_of(AS_NEURON)
    assert steps > 100 and len(reasons) == 4, reasons
    for name, expected in truth.items():
        assert got[name] == pytest.approx(expected, abs=1e-9), name
    assert got["stopped"][0] == pytest.approx(0.025) and got["text"][0] is False
    assert got["deleted"][0] == got["deleted"][2] == 0
    assert "A loop exists" in got["loop"]
    assert said.startswith("h.celsius has been set to 20 in psolve, but NEURON uses it only from")
