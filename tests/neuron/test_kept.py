"""Models that `run` keeps between pieces, compared with NEURON."""

from pathlib import Path

import pytest
from forked import result_of

pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("kept_program.py")
# as in test_run: NEURON's conductances are differences of currents, amplified by a spike's upstroke
TOLERANCE = 1e-9
DT = 0.025  # ms
REFUSED = {  # NEURON takes no steps of an order that changes in a run; it raises an error itself
    "secondorder": "secondorder",
    "gap not set up": "target_var or source_var after setup_transfer()",
}
# NEURON plays from h.finitialize() on; nothing waits for silent sources
IDLE = {"nothing", "play", "record", "netcon gone", "firing", "nothing coupled"}


def told(what, argument):
    return result_of(PROGRAM, what, argument)


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_each_change_between_pieces_acts_as_in_neuron(engine):
    result = told("changes", engine)
    assert len(result) > 30
    for name, one in result.items():
        if name in REFUSED:
            assert REFUSED[name] in one["refused"]
            continue
        assert all(a == b for a, b in one["lengths"]), name
        assert one["worst"] < TOLERANCE, name
        assert (one["effect"] > 1e-3) == (name not in IDLE), name


def test_spike_times_follow_a_clock_that_a_script_sets():
    expected, times = told("moved", "reference")
    assert len(times) == 5 and times == expected


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_models_with_counters_and_gap_junctions_are_read_once(engine):
    result = told("coupled", engine)
    assert result["reads"] == 1
    assert result["worst"] < TOLERANCE
    assert min(result["spikes"]) > 1 and result["elsewhere"] > 1  # from a run's middle on


@pytest.mark.parametrize("engine", ["auto", "steps", "epochs-gpu", "reference"])
def test_parameters_that_differ_at_a_start_are_set(engine):
    """Parameters that change between runs are set in a kept simulation; one read suffices."""
    result = told("scan", engine)
    assert result["made"] == ["read_model", "Simulation"]
    assert result["worst"] < TOLERANCE
    names = {name for name, effect in result["effect"].items() if effect > 1e-3}
    several = {"thresh", "gap"} if engine != "auto" else set()
    assert names == {"gnabar", "clamp", "tau2", "stimulus", "el", *several}


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_what_differs_at_a_start_acts_as_in_neuron(engine):
    """Compare a clamp beside a played one, a transferred voltage, and an early spike."""
    result = told("starts", engine)
    assert result["worst"] < TOLERANCE
    assert min(result["effect"]) > 1e-3
    assert result["first"] == [0.025]


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_times_of_a_vecstim_change_between_pieces(engine):
    result = told("train", engine)
    assert result["worst"] < TOLERANCE
    assert result["effect"] > 1e-3


def test_what_is_deleted_between_pieces_is_gone():
    result = told("lifetimes", 0)
    assert result["sections"] == [8, 0]
    assert min(result["before"]) > 3
    assert result["after"] == [0, 0]
    assert result["later"] == [0, 0]


@pytest.mark.parametrize("engine", ["auto", "steps"])
def test_pieces_give_the_bits_of_one_call(engine):
    """Compare pieces with one call; each piece's last step is NEURON's, so its last bits differ."""
    for differences in told("pieces", engine):
        assert max(differences) < 1e-10


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_events_at_the_end_of_a_piece_are_recorded_once(engine):
    """Compare a NetStim, an artificial cell and a threshold; NEURON takes each last step."""
    for truth, ours in told("recorded", engine):
        assert [len(a) for a in truth] == [len(a) for a in ours]
        assert min(map(len, truth)) > 1
        worst = max(abs(a - b) for times, other in zip(truth, ours) for a, b in zip(times, other))
        assert worst < 1e-9


ENDS = """
soma, dendrite = h.Section(name="soma"), h.Section(name="dendrite")
dendrite.connect(soma(0.5))
dendrite.nseg, dendrite.L, dendrite.diam = 3, 100, 1
for section in (soma, dendrite):
    section.insert("hh")
v = [h.Vector().record(dendrite(x)._ref_v) for x in (0.9, 1)]

def ran(go_on):
    h.finitialize(-65)
    for change, time in ((0, 1), (7, 2), (-4, 3.025)):
        dendrite(0.9).v += change
        go_on(time)
    return np.array(v), dendrite(1).v

rows = []
for h.secondorder in (0, 1, 2):
    truth, end = ran(h.continuerun)
    found, own = ran(lambda time: clhines.neuron.run(time, engine=sys.argv[1]))
    rows.append([np.abs(found - truth).max(), abs(own - end), abs(end - dendrite(0.9).v)])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_an_end_keeps_how_far_it_is_from_the_voltage_beside_it(engine):
    """A second-order step of NEURON flips the sign of an end's offset and keeps its size."""
    first, *second = result_of(ENDS, engine)
    assert max(off for off, *_ in (first, *second)) < TOLERANCE
    assert max(off for _, off, _ in (first, *second)) < TOLERANCE
    assert first[2] < TOLERANCE and min(row[2] for row in second) > 2


AT_TIMES = """
soma = make_section("soma", "hh")
times = h.Vector(np.sort(np.append(np.arange(1, 60) * 0.125, [0.01, 2.0125, 3.0374, 6.6])))
vectors = [h.Vector().record(r, times) for r in (h._ref_t, soma(0.5)._ref_v)]

def ran(go_on, stops):
    h.finitialize(-60)
    for stop in stops:
        go_on(stop)
    return np.array(vectors)

rows = []
for stops in ([8], [3, 8], [1.025, 1.05, 4.5, 8]):
    truth = ran(h.continuerun, stops)
    found = ran(lambda time: clhines.neuron.run(time, engine=sys.argv[1]), stops)
    rows.append([*np.abs(found - truth).max(axis=1), np.abs(truth[0] - times).max()])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_the_time_is_recorded_at_times_of_a_vector_as_by_neuron(engine):
    """If an event ends a step, NEURON records the time of the previous step."""
    for off_t, off_v, before in result_of(AT_TIMES, engine):
        assert off_t < TOLERANCE and off_v < TOLERANCE and before > 0.02


PLAYED = """
sections = [h.Section(name=name) for name in "abc"]
clamps = [h.IClamp(section(0.5)) for section in sections]
for section, clamp in zip(sections, clamps):
    section.L = section.diam = 30
    section.insert("pas")
    clamp.dur = 100
times, amps = h.Vector([0, 1, 3, 5, 7]), h.Vector([0, 0.1, 0.2, 0.05, 0.02])
amps.play(clamps[0]._ref_amp, times)
amps.play(clamps[1]._ref_amp, 1.7)
levels = h.Vector(np.linspace(-75, -60, 9))
levels.play(sections[2](0.5).pas._ref_e, times)
v = [h.Vector().record(section(0.5)._ref_v) for section in sections]

def ran(go_on, changes):
    for clamp in clamps:
        clamp.amp = 0
    sections[2](0.5).pas.e = -70
    times.x[2], times.x[3], amps.x[3] = 3, 5, 0.05
    h.finitialize(-70)
    for until, amp in changes:
        go_on(until)
        if amp == "times":
            times.x[2], times.x[3], amps.x[3] = 2.4, 1.1, 0.3
        elif amp is not None:
            clamps[0].amp = clamps[1].amp = amp
            sections[2](0.5).pas.e = -100 * amp
    go_on(9)
    return np.array(v), [clamp.amp for clamp in clamps]

def loop(until):
    while h.t < until - h.dt / 2:
        h.fadvance()

rows = []
for changes in (
    [(1.5, 0.3)], [(1.5, 0.3), (2, None)], [(1.5, 0.3), (1.7, None), (4, 0.3)], [(1, 0.3)],
    [(1 - h.dt, 0.3)], [(1 + h.dt, 0.3)], [(3.4 - h.dt, 0.6), (3.4, 0.7)], [(7.5, 0.9)],
    [(0.5, "times"), (4, 0.1)], [(2, "times"), (4, 0.1)], [(3.1, "times")], [(6, "times"), (8, 1)],
):
    truth, last = ran(h.continuerun, changes)
    plain = ran(h.continuerun, [])[0]
    found, own = ran(lambda time: clhines.neuron.run(time, engine=sys.argv[1]), changes)
    with clhines.neuron.enable(engine=sys.argv[1], strict=True):
        looped, of_loop = ran(loop, changes)
    rows.append([np.abs(found - truth).max(), np.abs(looped - truth).max(),
                 np.abs(plain - truth).max(), last == own == of_loop])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_what_is_set_stays_until_a_vector_plays_its_next_step(engine):
    """Compare values set between pieces and in loops, around the times of played steps.

    A later value keeps its time; an overdue one is played at once.
    """
    for off, off_in_loop, effect, same in result_of(PLAYED, engine):
        assert max(off, off_in_loop) < TOLERANCE and effect > 0.01 and same


BELOW = """
cells = [h.Section(name=f"cell{k}") for k in range(2)]
for cell in cells:
    cell.L = cell.diam = 20
    cell.insert("hh")
clamp, dc, leak = h.IClamp(cells[0](0.5)), h.IClamp(cells[1](0.5)), h.IClamp(cells[1](0.5))
clamp.dur, clamp.amp, leak.delay, leak.dur = 25, 0.4, -3.1, 6.3
dc.delay, dc.dur, dc.amp = 5, 1, 0.5
synapse, stim = h.ExpSyn(cells[1](0.5)), h.NetStim()
stim.start, stim.number, stim.interval, stim.noise = 0, 5, 3.3, 1
netcons = [h.NetCon(cells[0](0.5)._ref_v, synapse, sec=cells[0]), h.NetCon(stim, synapse)]
for netcon, delay, weight in zip(netcons, (2.3, 0.5), (0.05, 2e-3)):
    netcon.delay, netcon.weight[0] = delay, weight
late = h.NetCon(None, synapse)
late.delay, late.weight[0] = 1, 5e-3
amp, when = h.Vector([0, 0.05, -0.02]), h.Vector([-7.03, 2.41, 11])
amp.play(leak._ref_amp, when, True)
times = h.Vector([0, 0.01, 5.5])
vectors = [h.Vector() for _ in range(8)]
for netcon, vector in zip(netcons, vectors):
    netcon.record(vector)
for cell, (each, every, at) in zip(cells, (vectors[2:5], vectors[5:8])):
    each.record(cell(0.5)._ref_v)
    every.record(cell(0.5)._ref_v, 0.3)
    at.record(cell(0.5)._ref_v, times)
t = h.Vector().record(h._ref_t)

def ran(start, run, extra=()):
    h.finitialize(-65)
    h.fcurrent()
    h.frecord_init()
    h.t = clamp.delay = start
    for time in (start + 0.7, -0.2, 4.4, 9):
        if time > start + 0.6:
            late.event(time)
    for time in (*extra, 15):
        run(time)
    return [np.array(x) for x in (*vectors, t)]

def here(time):
    clhines.neuron.run(time, engine=sys.argv[1])

rows = []
for h.dt in (0.025, 2.0**-4):
    h.steps_per_ms = 1 / h.dt
    first = ran(0, h.continuerun)[0][0]  # after the start, ms, when the clamp makes it spike
    for start in (*(first // h.dt + np.arange(-1, 3)), 12.75 // h.dt, 400):
        start = -start * h.dt
        for extra in ((), (start + 0.6, 0.0, 3.0)):
            truth = ran(start, h.continuerun)
            with clhines.neuron.enable(engine=sys.argv[1], strict=True) as switch:
                found = ran(start, h.continuerun, extra)
            off = [float(abs(a - b).max(initial=0)) for a, b in zip(truth, found)
                   if len(a) == len(b)]
            sizes = [[len(x) for x in every] for every in (truth, found)]
            near = float(abs(truth[0]).min()) / h.dt
            rows.append((*sizes, max(off), near, switch.steps * h.dt, float(h.t)))
said = []
for number, run in ((-10.01, here), (-4.0, lambda _: clhines.from_neuron()), (-3.0, here)):
    h.finitialize(-65)
    h.t = number
    if number == -3.0:
        cells[0].insert("extracellular")
        cells[0](0.5).xc[0] = -1
    try:
        run(5)
    except clhines.core.errors.InputError as error:
        said.append((str(error), float(h.t)))
print(json.dumps([rows, said]))
"""


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_run_that_begins_before_0_goes_on_at_0(engine):
    """NEURON steps to 0; compare spikes near 0, events across it, and all kinds of records."""
    rows, said = result_of(BELOW, engine)
    assert min(row[3] for row in rows) < 1
    for truth, ours, worst, _, ran, end in rows:
        assert truth == ours and min(truth) > 0
        assert worst < TOLERANCE
        assert abs(ran - 15) < DT and abs(end - 15) < 1e-9
    assert [t for _, t in said] == [-10.01, -4.0, -3.0]
    words = "no step of h.dt = 0.0625", "h.t is -4 ms; expected 0 or more", "extracellular"
    assert all(word in message for word, (message, _) in zip(words, said))
