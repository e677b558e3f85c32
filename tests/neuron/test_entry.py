"""Compare `clhines.neuron.run` with NEURON, which is the oracle."""

from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
FOLDER = Path(__file__).parent
# NEURON divides differences of currents by 0.001 mV for conductances, also for ohmic ones: 1e-13 of
# 1 mA/cm² for 0.02 S/cm² is 5e-12 relative, which a spike's upstroke (about e^5) amplifies.
TOLERANCE = 1e-9


def result_of(case, engine, program="neuron_program.py"):
    program = str(FOLDER / program)
    start = (
        f"import runpy, sys; sys.path.insert(0, {str(FOLDER.parent)!r});"
        f"sys.argv[1:] = [{case!r}, {engine!r}];"
        f"runpy.run_path({program!r}, run_name='__main__')"
    )
    return forked.result_of(start)


CASES = {
    "reference": """joined recorders events named played gaps streams watched reset added crossing
        trains clamped patterns second late half lone hidden""",
    "steps": "recorders events played streams watched reset added common clamped hidden",
    "epochs-gpu": "recorders reset added crossing played hidden",
    "epochs": "reset added",
}
STEPS = [(case, engine) for engine, cases in CASES.items() for case in cases.split()]


@pytest.mark.parametrize(("case", "engine"), STEPS)
def test_vectors_are_those_of_neuron(case, engine):
    result = result_of(case, engine)
    for way, got in result.items():
        assert got["t"] == 0, way
        assert all(a == b for a, b in got["lengths"]), (way, got["lengths"])
        assert any(a > 2 for a, _ in got["lengths"])
        for difference, scale in zip(got["differences"], got["scales"], strict=True):
            assert difference <= TOLERANCE * max(scale, 1e-6), (way, got)


@pytest.mark.parametrize(
    ("engine", "dt"), [("reference", 0.025), ("steps", 0.1), ("epochs-gpu", 0.025)]
)
def test_bins_of_events_are_those_of_neuron(engine, dt):
    result = result_of(engine, str(dt), "bins_program.py")
    assert result["events"] > 6
    assert result["plain"] is None or result["plain"] > 0.01  # bins matter here
    assert result["whole"] is not None and result["whole"] <= TOLERANCE, result
    assert result["turns"] is not None and result["turns"] <= TOLERANCE, result


OF_NONE = """
loaded()
soma = h.Section(name="soma")
synapse = h.ext_array(soma(0.5))
netcon = h.NetCon(None, synapse)
netcon.weight[0] = 0.01
h.finitialize(-65)
netcon.event(0.8)
clhines.neuron.run(1, engine="reference")
ask = lambda: clhines.neuron.run(3, engine="steps")
"""


def test_a_self_event_of_a_netcon_that_sends_nothing_is_refused_when_it_is_read():
    said = forked.refusal_of(OF_NONE)
    assert "ext_array: a pending self event whose NetCon has no source" in said


SAME_TIME = """
loaded()
found = []
for early in (False, True):
    soma = make_section("soma", "pas")
    stim, before = h.NetStim(), h.NetStim()
    stim.number = before.number = 1
    stim.start, before.start = 1, 2
    pulse, other = h.ext_pulse(soma(0.5)), h.ExpSyn(soma(0.5))
    netcons = [h.NetCon(stim, pulse, 0, 5, 1e-3 * (k + 1)) for k in range(2)]
    netcons += [h.NetCon(stim, other, 0, 7, 0), h.NetCon(before, other, 0, 1, 0)]
    netcons[-1].active(early)  # an event to another target, between sending and delivery
    for way in (h.continuerun, lambda stop: clhines.neuron.run(stop, engine="reference")):
        h.finitialize(-65)
        way(6.5)
        found.append(pulse.mixed)
print(json.dumps(found))
"""


def test_of_events_of_one_time_that_sent_first_comes_first_here():
    """The first sent of simultaneous events comes first; NEURON's order depends on its queue."""
    neuron, ours, also_neuron, also_ours = forked.result_of(SAME_TIME)
    first, second = 0.7 * 1 + 2, 0.7 * 2 + 1
    assert ours == also_ours == pytest.approx(first, rel=1e-15)
    assert sorted([neuron, also_neuron]) == pytest.approx([second, first], rel=1e-15)


OVERFLOWS = """
soma, stim, cell = h.Section(), h.NetStim(), h.IntFire1()
stim.start, stim.number, stim.interval, stim.noise, cell.tau = 1, 2, 2, 0, 1e-3
netcons = [h.NetCon(stim, cell) for _ in range(2)]
for netcon in netcons:
    netcon.weight[0] = -1.7e308
said = []
for engine in ("reference", "steps", "epochs"):
    h.finitialize(-65)
    said.append(refusal(clhines.neuron.run, 5, engine=engine))
h.finitialize(-65)
h.dt = 0.025
while h.t < 5:
    h.fadvance()
print(json.dumps([cell.m != cell.m, *said]))
"""


def test_a_state_that_becomes_no_number_ends_a_run():
    """An infinite state times a decay of 0 is NaN: NEURON continues, a run here ends."""
    is_lost, *said = forked.result_of(OVERFLOWS)
    assert is_lost
    assert said == ["m of IntFire1 is no number after the run"] * 3


GONE = """
soma, other = h.Section("soma"), h.Section("other")
soma.insert("pas")
synapse, stim = h.ExpSyn(soma(0.5)), h.NetStim()
gone, netcon = h.NetCon(other(0.5)._ref_v, synapse, sec=other), h.NetCon(stim, synapse)
stim.start, stim.number, netcon.weight[0], gone.weight[0] = 1, 1, 0.5, 0.5
del other
v, found, said = h.Vector().record(soma(0.5)._ref_v), [], ""
for run in (h.continuerun, clhines.neuron.run):
    h.finitialize(-65)
    run(5)
    found.append(list(v))
lost = h.Vector().record(h._ref_dt)
h.finitialize(-65)
said = refusal(clhines.neuron.run, 5)
print(json.dumps([gone.preseg() is None, *found, said]))
"""


def test_a_netcon_whose_source_is_gone_sends_nothing():
    """Reading the delay of such a NetCon in Python ends NEURON's process."""
    is_gone, neuron, ours, said = forked.result_of(GONE)
    assert is_gone and max(neuron) - min(neuron) > 1
    # both sides do the same operations in another order, 1e-16 each at 65 mV, over 200 steps
    assert ours == pytest.approx(neuron, abs=1e-9)
    assert "Vector.record of dt; expected" in said


CROWDED = """
soma, found = h.Section(), []
clamps = [h.IClamp(soma(0.5)) for _ in range(33_000)]
for clamp in clamps:
    clamp.dur, clamp.amp = 1e9, 1e-4
h.dt = 0.025
for way in (lambda: clhines.neuron.run(1), lambda: [h.fadvance() for _ in range(40)]):
    h.finitialize(-65)
    way()
    found.append(soma(0.5).v)
print(json.dumps(found))
"""


def test_a_segment_has_more_points_than_a_short_integer_counts():
    ours, neuron = forked.result_of(CROWDED)
    assert neuron > -64
    assert ours == pytest.approx(neuron, rel=TOLERANCE)


ENDS = """
source, target, times, found = h.Section(), h.Section(), h.Vector(), []
source.L = source.diam = target.L = target.diam = 20
source.insert("hh")
target.insert("pas")
synapse, cell = h.ExpSyn(target(0.5)), h.IntFire1()
heard = h.NetCon(cell, None)
heard.record(times)
netcons = [h.NetCon(source(0.5)._ref_v, to, sec=source) for to in (synapse, cell)]
for netcon in netcons:
    netcon.threshold, netcon.weight[0], netcon.delay = 10, 2, 1
netcons[0].weight[0] = 0.003
for mode in (0, 1):
    h.CVode().queue_mode(mode, 0)
    for first in (0.025, 1.0, 1.025):
        for run in (h.continuerun, clhines.neuron.run):
            h.finitialize(60)
            run(first)
            run(6)
            found.append([list(times), synapse.g])
relay = h.NetCon(cell, synapse, 0, 0.017, 0.01)
h.finitialize(60)
found.append(refusal(clhines.neuron.run, 6, engine="steps"))
print(json.dumps(found))
"""


def test_spikes_of_the_start_and_of_a_call_s_last_bin_are_neuron_s():
    """Compare spikes from above a threshold, in calls of one step and until the event's bin."""
    *result, refused = forked.result_of(ENDS)
    for neuron, ours in zip(result[::2], result[1::2], strict=True):
        assert len(neuron[0]) == 1
        assert ours[0] == pytest.approx(neuron[0], abs=TOLERANCE)
        assert ours[1] == pytest.approx(neuron[1], rel=TOLERANCE)
    assert "engine 'steps' takes no events in bins" in refused


PHASES = """
import contextlib, io, json, re, sys
soma = make_section("soma", nseg=3)
for name in ("hh", "pas"):
    soma.insert(name)
synapse, stim = h.ExpSyn(soma(0.5)), h.NetStim()
netcon, found = h.NetCon(stim, synapse), []
for stop, shown in ((1, True), (2, True), (1, False)):
    if stop == 1:
        h.finitialize(-65)
        netcon = h.NetCon(stim, synapse)  # which is read again
    with contextlib.redirect_stderr(io.StringIO()) as said:
        clhines.neuron.run(stop, engine="steps", progress=shown)
    found.append(re.findall(r"clhines: .*? \\.\\.\\.", said.getvalue()) + ["|" in said.getvalue()])
found.append(refusal(clhines.neuron.run, 2, progress=3))
print(json.dumps(found))
"""


def test_progress_says_what_is_read_made_and_compiled():
    """Each phase is printed once, in order; a kept model, or no `progress`, prints none."""
    (*first, has_bar), kept, silent, refused = forked.result_of(PHASES)
    assert first[:5] == [
        "clhines: reading NEURON's memory ...",
        "clhines: converting mechanisms, 0 of 4 done ...",  # hh, pas, ExpSyn, NetStim
        "clhines: making a network of 3 nodes and 1 NetCon ...",
        "clhines: making a model of 1 cell ...",
        "clhines: planning for engine steps ...",
    ]
    assert has_bar and len(first) > 5
    for line in first[5:]:
        assert line.startswith(("clhines: building kernels, ", "clhines: compiling kernels ..."))
    built = [line for line in first if "building kernels" in line]
    assert [line.split(", ")[1] for line in built] == [f"{k} done ..." for k in range(len(built))]
    assert kept == [True] and silent == [False]
    assert refused == "progress is 3; expected True or False"


FROM_NEURON = """
soma = h.Section(name="soma")
stim, cvode, found = h.NetStim(), h.CVode(), []
after = h.FInitializeHandler(lambda: cvode.event(1.5, "t = t"))

def refused():
    try:
        clhines.from_neuron()
    except clhines.InputError as error:
        return str(error)

h.finitialize(-65)
found.append(refused())
del after
h.finitialize(-65)
h.t = -1
found.append(refused())
listed = [str(one) for one in clhines.neuron.check()]
clhines.neuron.run(1, engine="reference")
print(json.dumps([*found, listed, h.t]))
"""


def test_what_run_alone_can_do_is_refused_by_from_neuron():
    """In a run, NEURON itself steps to 0 ms, so check() lists nothing."""
    statement, early, listed, end = forked.result_of(FROM_NEURON)
    assert "CVode.event with a statement, at t = 1.5 ms" in statement
    assert "h.t is -1 ms; expected 0 or more" in early
    assert listed == [] and abs(end - 1) < 1e-9


SOLVED = """
soma = make_section("soma", "pas")
pc, times, at = h.ParallelContext(), h.Vector([0.1, 0.35]), h.Vector()
at.record(h._ref_t, times)
pc.set_maxstep(10)
found = []
for on in (False, True):
    switch = clhines.neuron.enable(engine="reference") if on else None
    h.finitialize(-65)
    pc.psolve(1)
    found.append(at.to_python())
    if on:
        found.append(switch.reasons)
        clhines.neuron.disable()
print(json.dumps(found))
"""


def test_times_of_psolve_are_left_to_neuron():
    """NEURON's h.t keeps the start time until the call ends."""
    expected, recorded, reasons = forked.result_of(SOLVED)
    assert recorded == expected == [0.0, 0.0]
    assert "Vector.record of h.t at given times, in psolve" in str(reasons)


HOSTILE = """
import numpy as np
from neuron import h
import clhines
import clhines.neuron as n
h.load_file("stdrun.hoc")
h.Section("soma").insert("pas")
several = np.array(["a", "b"])
calls = [
    lambda: n.run(2**31), lambda: n.run(1e300), lambda: n.run(1, dtype=10**5000),
    lambda: n.run(1, dtype={"a": {"b": []}}), lambda: n.enable(engine=several),
    lambda: n.enable(strict=several), lambda: n.enable(when=several),
]
said = []
for call in calls:
    h.finitialize(-65)
    try:
        call()
        said.append("nothing")
    except clhines.InputError as error:
        said.append("" if len(str(error)) < 300 and "expected" in str(error) else str(error))
print(json.dumps(said))
"""


def test_arguments_of_any_type_are_refused_in_one_line():
    assert set(forked.result_of(HOSTILE)) == {""}
