"""The estimate whether NEURON or the device ends a call sooner, and the switch's choice by it."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import forked
import numpy as np
import pytest
from processes import run_python

import clhines
from clhines.core import files
from clhines.neuron.switch import cost
from clhines.neuron.switch.cost import Accounts, Counts, Ledger, Times
from tests.neuron.test_ranks import ended

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[3]
MODEL = Counts(2000, (("hh", 1000), ("pas", 1000)), (("a", 3000), ("b", 300)), 10)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A temporary cache folder, and the cost constants of one machine."""
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cost, "machine_factor", lambda: 1.0)
    monkeypatch.setattr(cost, "_MODEL", 1.0)  # above the times below, whatever is imported
    return tmp_path


def ledger(**times):
    return Ledger(MODEL, {}, Times(**times), is_compiled=bool(times))


TIMES = {"neuron_step": 1e-3, "device_begin": 0.5, "device_step": 1e-4, "device_call": 0.01}


@pytest.mark.parametrize(
    "steps, sooner",
    [
        (1, False),
        (600, False),  # 0.54 s of 0.6 count, and 0.57 are needed
        (700, True),  # 0.63 s of 0.7 count, and 0.58 are needed
        (10**6, True),
    ],
)
def test_a_call_goes_to_who_ends_sooner(steps, sooner):
    assert ledger(**TIMES).device_is_sooner(steps) == sooner


def test_the_device_goes_on_with_pieces_that_pay():
    """The device, once begun, takes 0.01 s a piece and 0.1 ms a step; NEURON takes 1 ms a step."""
    one = ledger(**TIMES)
    one.add_device(1000, 0.6, 0.1)
    assert [one.device_is_sooner(n) for n in (1, 12, 14, 40)] == [False, False, True, True]


def test_pauses_for_code_of_events_count():
    """128 pauses of 31 ms in 1,000 steps add 4 ms a step; NEURON takes 1 ms a step."""
    one = ledger(**TIMES)
    one.add_device(1000, 4.5, 0.125, [0.03125] * 128)
    assert (one.record.device_begin, one.record.device_pause) == (0.5, 0.03125)
    assert not one.device_is_sooner(10**5)
    one.add_device(1000, 0.2, 0.1)  # 2 ms on average, and the steps
    assert not one.device_is_sooner(10**5)
    one.add_device(4000, 0.4, 0.2)
    assert one.device_is_sooner(10**5)


def test_the_record_tells_of_pauses():
    one = Ledger.of(MODEL, "")
    one.record.neuron_step = 1e-3
    assert one.device_is_sooner(10_000)
    one.add_device(10_000, 24, 1, [0.02] * 1000)
    one.save()
    for _ in range(3):
        again = Ledger.of(MODEL, "")
        assert not again.device_is_sooner(10_000) and not again.may_compile_ahead(10_000, True)
        again.add_neuron(10_000, 10)
        again.save()
    assert Ledger.of(MODEL, "").device_is_sooner(20_000)  # another script


def test_the_device_begins_when_neuron_has_taken_as_long():
    """Without records from earlier runs, the device begins after 13 pieces, 0.52 s in NEURON."""
    one, choices = ledger(**TIMES), []
    for _ in range(20):
        choices.append(one.device_is_sooner(40))
        if not choices[-1]:
            one.add_neuron(40, 0.04)
    assert choices == [False] * 13 + [True] * 7


def test_the_length_of_the_last_script_counts():
    assert ledger(**TIMES, steps=4000, first=40).device_is_sooner(40)
    assert not ledger(**TIMES, steps=400, first=40).device_is_sooner(40)
    assert not ledger(**TIMES, steps=4000, first=4000).device_is_sooner(40)  # another script


def test_a_slow_device_never_begins():
    one = ledger(**{**TIMES, "device_step": 2e-3}, steps=10**6, first=10**5)
    assert not one.device_is_sooner(10**5)
    one.add_neuron(10**6, 1000)
    assert not one.device_is_sooner(10**5)


@pytest.mark.parametrize(
    "before, steps, is_due, ahead",
    [
        (0, 3000, True, False),  # the model's first call
        (3000, 3000, True, True),
        (3000, 3000, False, False),  # 1.5 s to read and import are more than 5 % of 6 s + 0.2 s
        (30_000, 3000, False, True),
        (3000, 9000, True, False),  # 8.1 s that count are saved by this call alone
        (3000, 10, True, False),  # and none by this one
    ],
)
def test_kernels_are_compiled_ahead_if_calls_repeat(monkeypatch, before, steps, is_due, ahead):
    monkeypatch.setattr(cost, "first_use", lambda: 2.5)
    monkeypatch.setattr(cost, "import_seconds", lambda: 0.45)
    one = ledger()
    one.record.neuron_step, one.record.device_step, one.record.device_call = 1e-3, 1e-4, 0.01
    one.add_neuron(before, before * 1e-3)
    assert one.may_compile_ahead(steps, is_due) == ahead
    one.set_compiled()
    assert not one.may_compile_ahead(steps, is_due)


def test_kernels_that_are_compiled_ahead_stay_in_the_record():
    one = Ledger.of(MODEL, "")
    begin = one.device_begin
    one.set_compiled()
    assert one.device_begin < begin
    one.save()
    assert Ledger.of(MODEL, "").is_compiled


def test_one_rank_compiles_ahead(cells, monkeypatch):
    """Ranks without exchange compile ahead on one rank; ranks with exchange compile in a call."""
    accounts = Accounts(h)
    accounts.device_is_sooner(1)
    monkeypatch.setattr(Ledger, "may_compile_ahead", lambda *_: True)
    assert accounts.ledger_to_compile(1, True) is accounts._ledger
    monkeypatch.setattr(accounts, "_ranks", h.ParallelContext)
    assert accounts.ledger_to_compile(1, True) is None
    second = SimpleNamespace(ParallelContext=lambda: SimpleNamespace(id=lambda: 1, nhost=lambda: 1))
    monkeypatch.setattr(accounts, "_ranks", lambda: None)
    monkeypatch.setattr(accounts, "_h", second)
    assert accounts.ledger_to_compile(1, True) is None


def test_estimates_grow_with_the_model():
    larger = Counts(4000, (("hh", 3000), ("pas", 1000)), MODEL.texts, 10)
    assert larger.work > MODEL.work and larger.begin(True) > MODEL.begin(True)
    assert MODEL.begin(False) > MODEL.begin(True)


def test_times_fall_by_half_or_stay():
    record = Times()
    for seconds, kept in (4.0, 4.0), (3.0, 4.0), (5.0, 4.0), (1.9, 1.9), (1.0, 1.9):
        record.fall("device_step", seconds)
        assert record.device_step == kept


def test_noise_of_measured_times_changes_no_decision():
    """All of 20 runs with times 30 % longer or shorter decide alike from the third on."""
    rng, decisions = np.random.default_rng(61), []
    for _ in range(20):
        one = Ledger.of(MODEL, "")
        decisions.append(one.device_is_sooner(3000))
        noise = rng.uniform(0.7, 1.3)
        if decisions[-1]:
            one.add_device(3000, noise * 0.7, noise * 0.3)
        else:
            one.add_neuron(3000, noise * 1.2)
        one.save()
    assert len(set(decisions[2:])) == 1


def test_a_record_lives_from_run_to_run(folder):
    one = Ledger.of(MODEL, "")
    assert not one.is_compiled and not one.device_is_sooner(100)
    one.add_device(100, 0.5, 0.2)
    one.add_device(100, 0.1, 0.05)
    one.save()
    again = Ledger.of(MODEL, "")
    assert again.is_compiled and again.record == Times(None, 0.3, 5e-4, 0.05, 200, 100)
    assert Ledger.of(MODEL, "another device").record == Times()


@pytest.mark.parametrize(
    "change", [{"device_step": "1"}, {"device_step": -1}, {"device_step": None}, {"schema": 9}]
)
def test_a_corrupt_record_counts_as_none(folder, change):
    one = Ledger.of(MODEL, "")
    one.add_device(100, 0.5, 0.2)
    one.add_device(100, 0.1, 0.05)
    one.save()
    (path,) = folder.glob("times-*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert Ledger.of(MODEL, "").record.device_step is None
    path.write_text("{")
    assert Ledger.of(MODEL, "").record == Times()


def test_a_folder_that_cannot_be_written_stops_nothing(monkeypatch):
    monkeypatch.setenv("CLHINES_CACHE_DIR", os.devnull)
    one = Ledger.of(MODEL, "")
    one.add_neuron(10, 1.0)
    one.save()


@pytest.fixture
def cells():
    made = [h.Section(name=f"s{k}") for k in range(3)]
    for k, section in enumerate(made):
        section.nseg, section.L, section.diam = 2 * k + 1, 30, 20
        section.insert("hh" if k else "pas")
    made += [h.ExpSyn(made[0](0.5)), h.NetStim()]
    made.append(h.NetCon(made[-1], made[-2]))
    return made


def test_counts(cells, monkeypatch):
    counts = cost.count(h)
    numbers = dict(counts.instances)
    assert counts.segments == 1 + 3 + 5 and counts.netcons == 1
    assert (numbers["pas"], numbers["hh"], numbers["na_ion"]) == (1, 8, 8)
    assert (numbers["ExpSyn"], numbers["NetStim"]) == (1, 1) and "IClamp" not in numbers
    assert counts == cost.count(h)
    cells[1].nseg = 7
    assert cost.count(h) != counts
    monkeypatch.setattr(cost, "_SAMPLES", 1)  # the first of three sections
    assert dict(cost.count(h).instances)["pas"] == 4  # as if all four quarters had it


def test_counts_of_many_sections_are_fast():
    """Counting costs at most 20 ms, or 1 % of NEURON's time for 100 steps."""
    made = [h.Section(name=f"n{k}") for k in range(4000)]
    for section in made:
        section.nseg = 5
        section.insert("pas")
    seconds = []
    for _ in range(5):
        begin = cost.time.process_time()
        counts = cost.count(h)
        seconds.append(cost.time.process_time() - begin)
    assert counts.segments >= 20_000
    assert min(seconds) < max(0.02, 0.01 * 100 * counts.work)


def test_the_model_is_counted_again_when_it_changes(cells):
    accounts = Accounts(h)
    accounts.device_is_sooner(1)
    first = accounts._ledger
    accounts.device_is_sooner(1)
    assert accounts._ledger is first
    cells[1].nseg = 9
    h.finitialize(-65)
    accounts.device_is_sooner(1)
    assert accounts._ledger is not first


def test_only_calls_that_are_decided_on_are_noted(cells):
    """Calls that the device always takes, and refused calls, are not noted."""
    h.load_file("stdrun.hoc")
    h.finitialize(-65)
    with clhines.neuron.enable() as on:
        h.continuerun(1)
    one = on._state.accounts._ledger
    assert one.neuron_steps == one.steps == 40
    cells[2].nseg = 7
    h.finitialize(-65)
    with clhines.neuron.enable(when="always") as on:
        h.continuerun(1)
    assert on.steps == 40 and one.steps == 40 and not one.has_begun
    with clhines.neuron.enable() as on:
        h.CVode().active(1)
        h.finitialize(-65)
        h.continuerun(1)
        h.CVode().active(0)
    assert "CVode" in on.reasons[0] and not one.is_refused


SCRIPT = """
import json, sys
from neuron import h
h.load_file("stdrun.hoc")
soma = h.Section(name="soma")
soma.L = soma.diam = 20
soma.insert("hh")
clamp = h.IClamp(soma(0.5))
clamp.delay, clamp.dur, clamp.amp = 1, 10, 0.5
v = h.Vector().record(soma(0.5)._ref_v)
import clhines
from clhines.neuron.switch import cost
cost._MODULES = cost._MODEL = cost._COMPILE = cost._CALL = cost._TRUST = float(sys.argv[1])
cost._STEP = float(sys.argv[2])
with clhines.neuron.enable(**json.loads(sys.argv[3])) as on:
    h.tstop = 5
    h.run()
    heavy = "pyopencl" in sys.modules or "clhines.simulator.simulation" in sys.modules
    print(json.dumps([on.steps, on._state.counts[1], heavy, list(v), repr(on)]))
"""


def script(folder, once, step, quiet="", **options):
    (folder / "script.py").write_text(SCRIPT)
    arguments = ["script.py", once, step, json.dumps(options)]
    environment = {"PYTHONPATH": str(ROOT), "CLHINES_QUIET": quiet}
    done = run_python(*arguments, cwd=folder, timeout=300, **environment)
    assert not done.returncode, done.stderr
    return [*json.loads(done.stdout), done.stderr.splitlines()]


@pytest.mark.core
def test_who_takes_a_run(tmp_path):
    """Constants that let NEURON or the device win change a log line, but no voltage."""
    *neuron, v, text, said = script(tmp_path, 10, 1e-6)
    assert neuron == [0, 200, False]
    assert said[-1] == "clhines: 200 steps by NEURON (sooner there)"
    assert text.endswith("0 steps run on the device, 200 by NEURON (sooner there)")
    for path in tmp_path.glob("times-*.json"):
        path.unlink()
    *device, ours, _, said = script(tmp_path, 1e-6, 10)
    assert device == [200, 0, True]
    assert said[-1].startswith("clhines: 200 steps in ") and " in NEURON)" in said[-1]
    # NEURON's conductances are differences of currents, amplified by a spike's upstroke
    assert np.abs(np.subtract(v, ours)).max() < 1e-9 and np.ptp(v) > 80


@pytest.mark.parametrize(
    "options, steps",
    [
        ({"when": "always"}, 200),
        ({"when": "never"}, 0),
        ({"engine": "reference"}, 200),
        ({"strict": True}, 200),
        ({"engine": "reference", "when": "faster"}, 0),
    ],
)
def test_who_is_to_take_a_run(tmp_path, options, steps):
    """NEURON would end sooner."""
    output = script(tmp_path, 10, 1e-6, quiet="1", **options)
    assert output[0] == steps and not any("clhines" in line for line in output[-1])


def test_when_is_checked(tmp_path):
    with pytest.raises(AssertionError, match="when='sometimes'; expected faster"):
        script(tmp_path, 1, 1, when="sometimes")


def test_pieces_of_both_are_as_of_neuron(cells, monkeypatch):
    """Draw who takes each piece; compare events, changes and a play with NEURON."""
    h.load_file("stdrun.hoc")
    soma, synapse, stim, wire = cells[1], *cells[3:]
    clamp, rng = h.IClamp(soma(0.5)), np.random.default_rng(64)
    clamp.delay, clamp.dur, clamp.amp = 1, 1e9, 0.3
    played, times = h.Vector([0, 0.2, 0.1, 0.3]), h.Vector([0, 3, 7, 20])
    played.play(clamp._ref_amp, times, True)
    back = h.NetCon(soma(0.5)._ref_v, synapse, 0, 1.3, 0.01, sec=soma)
    spikes = h.Vector()
    back.record(spikes)
    wire.weight[0], stim.interval, stim.number = 0.02, 2.1, 9
    records = [h.Vector().record(section(0.5)._ref_v) for section in cells[:3]]

    def pieces():
        h.finitialize(-65)
        for k in range(1, 21):
            h.continuerun(k * 1.05)
            synapse.tau = 1 + 0.1 * k
        return [np.array(r) for r in (*records, spikes)]

    synapse.tau = 1
    expected = pieces()
    draws = [bool(n) for n in rng.integers(2, size=20)]
    monkeypatch.setattr(Accounts, "device_is_sooner", lambda *_: draws.pop())
    synapse.tau = 1
    with clhines.neuron.enable() as on:
        results = pieces()
    assert not draws and 0 < on.steps < 840 and len(expected[-1]) > 1
    assert len(results[-1]) == len(expected[-1])
    for theirs, ours in zip(expected, results, strict=True):
        assert np.abs(theirs - ours).max() < 1e-6


RANKS = """
import json, sys
from mpi4py import MPI
from neuron import h
h.nrnmpi_init()
context = h.ParallelContext()
me = int(context.id())
h.load_file("stdrun.hoc")
import clhines
from clhines.neuron.switch import cost
if sys.argv[1] == "device":
    cost._MODULES = cost._MODEL = cost._COMPILE = cost._CALL = cost._COMPILE_MECHANISM = 1e-9
    cost._STEP, cost._PER_MECHANISM, cost._TRUST = 1.0, 1e-9, 1e-9
cells, kept = [h.Section(name=f"s{k}") for k in range(me, 6, 2)], []
for k, soma in zip(range(me, 6, 2), cells):
    soma.L = soma.diam = 20
    soma.insert("hh")
    context.set_gid2node(k, me)
    context.cell(k, h.NetCon(soma(0.5)._ref_v, None, sec=soma))
for k, soma in zip(range(me, 6, 2), cells):
    synapse = h.ExpSyn(soma(0.5))
    wire = context.gid_connect((k - 1) % 6, synapse)
    wire.delay, wire.weight[0] = 1.5, 0.05
    kept += [synapse, wire]
if me == 0:  # mechanisms that the other rank has not
    clamp, other = h.IClamp(cells[0](0.5)), h.Section(name="other")
    clamp.delay, clamp.dur, clamp.amp = 1, 1, 1
    other.insert("pas")
times, gids = h.Vector(), h.Vector()
context.spike_record(-1, times, gids)
context.set_maxstep(10)
h.finitialize(-65)
with clhines.neuron.enable() as on:
    for k in range(5):
        context.psolve(5 * (k + 1))
    counts = context.py_gather([on.steps, on._state.counts[1], len(times)], 0)
if me == 0:
    print(json.dumps([counts, list(times)]))
"""


@pytest.mark.mpi
def test_all_ranks_leave_a_call_to_the_same(tmp_path):
    """Compare the spikes of two ranks' cells, in pieces, taken by NEURON and by the device."""
    path = tmp_path / "ranks.py"
    path.write_text(RANKS)
    results = {}
    for who in ("neuron", "device"):
        done = ended(2, who, program=(path,))
        assert not done.returncode, done.stderr
        results[who] = json.loads(next(x for x in done.stdout.splitlines() if x.startswith("[")))
        for rank in tmp_path.glob("times-*.json"):
            rank.unlink()
    (neuron, expected), (device, times) = results["neuron"], results["device"]
    assert [row[:2] for row in neuron] == [[0, 1000]] * 2
    assert [row[:2] for row in device] == [[1000, 0]] * 2
    assert len(times) == len(expected) > 3
    assert np.abs(np.subtract(times, expected)).max() < 1e-9


def test_the_calibration_is_kept(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(folder))
    cost.machine_factor.cache_clear()
    factor = cost.machine_factor()
    (path,) = folder.glob("calibration-*.json")
    assert 0.01 < factor < 100 and files.read_json(path)["seconds"] > 0
    path.write_text(path.read_text().replace('"seconds": ', '"seconds": 1'))
    cost.machine_factor.cache_clear()
    assert cost.machine_factor() > factor
    cost.machine_factor.cache_clear()


def test_each_statement_of_an_event_is_a_pause():
    """In a separate process, as other tests' cells would change the estimate."""
    steps, pauses, seconds = forked.printed_by("""
import clhines
from clhines.neuron.switch import cost
cost._STEP = 10  # s; so the device is sooner
section = h.Section(name="paused")
section.insert("pas")
h.load_file("stdrun.hoc")
h.finitialize(-60)
for t in (0.5, 1.0, 1.5):
    h.CVode().event(t, lambda: None)
with clhines.neuron.enable() as on:
    h.continuerun(2)
one = on._state.accounts._ledger
print(json.dumps([one.steps, one.pauses, one.record.device_pause]))
""")
    assert (steps, pauses) == (80, 3) and seconds > 0
