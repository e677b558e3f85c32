"""Random.play: compare its numbers with NEURON's bit by bit, and the dependent results."""

import forked
import pytest

pytestmark = pytest.mark.neuron
START = """
from clhines.neuron.read import played
loaded()
"""
MODEL = """
soma = make_section("soma", "hh", L=20, diam=20)
clamp, other = with_values(h.IClamp(soma(0.5)), dur=1e9), with_values(h.IClamp(soma(0.5)), dur=1e9)
stim, synapse, pulse = h.NetStim(), h.ExpSyn(soma(0.5)), h.ext_pulse(soma(0.5))
stim.start, stim.number = 0, 1e9
netcons = [h.NetCon(stim, target, 0, 0.3, 0.003) for target in (synapse, pulse)]
normal, uniform = h.Random(), h.Random()
normal.play(clamp._ref_amp)
for reference in (stim._ref_interval, synapse._ref_tau, pulse._ref_dur, clamp._ref_amp):
    uniform.play(reference)
normal.play(clamp._ref_amp)  # once more, after the other one: this number counts
normal.play(other._ref_amp)
times, numbers = h.Vector([0, 12.3]), h.Vector([1e9, 0])
numbers.play(stim._ref_number, times)  # the interval's source
exact = [h.Vector().record(x) for x in (
    clamp._ref_amp, other._ref_amp, synapse._ref_tau, pulse._ref_dur, stim._ref_interval)]
exact += [h.Vector().record(clamp._ref_amp, 0.31), h.Vector().record(clamp._ref_i)]
near = [h.Vector().record(x) for x in (soma(0.5)._ref_v, synapse._ref_g, pulse._ref_g)]

def begin(dt=0.025):
    h.dt = dt
    h.steps_per_ms = 1 / dt
    normal.Random123(1, 2, 3)
    normal.normal(0.05, 0.01)
    uniform.MCellRan4(7)
    uniform.uniform(1, 4)
    h.finitialize(-65)

def found():
    after = [normal.seq(), uniform.seq(), clamp.amp, other.amp, synapse.tau, pulse.dur,
             stim.interval, h.t]
    drawn = [normal.repick() for _ in range(3)]
    return [[list(x) for x in exact], [list(x) for x in near], after + drawn]
"""
RUNS = """
def ours(*stops):
    def go():
        for stop in stops:
            clhines.neuron.run(stop, engine=ENGINE)
    return go

def theirs(stop):
    return lambda: h.continuerun(stop)

def twice():
    clhines.neuron.run(4, engine=ENGINE)
    h.finitialize(-65)
    clhines.neuron.run(15, engine=ENGINE)

def theirs_twice():
    h.continuerun(4)
    h.finitialize(-65)
    h.continuerun(15)

def between():
    clhines.neuron.run(5, engine=ENGINE)
    h.continuerun(9)
    clhines.neuron.run(15, engine=ENGINE)

def with_code():
    h.CVode().event(3.01, lambda: uniform.repick())
    clhines.neuron.run(15, engine=ENGINE)

def theirs_with_code():
    h.CVode().event(3.01, lambda: uniform.repick())
    h.continuerun(15)

def in_chunks():
    most, played._MOST_NUMBERS = played._MOST_NUMBERS, 4 * 77
    clhines.neuron.run(15, engine=ENGINE)
    played._MOST_NUMBERS = most

def restored(run):
    state = h.SaveState()
    run(5)
    state.save()
    run(9)
    state.restore()  # not the Randoms
    run(15)

results = {}
for name, own, neuron, dt in (
    ("whole", ours(15), theirs(15), 0.025),
    ("pieces", ours(2, 2.025, 2.075, 9, 15), theirs(15), 0.025),
    ("turns", between, theirs(15), 0.025),
    ("again", twice, theirs_twice, 0.025),
    ("longer steps", ours(6, 15), theirs(15), 0.1),
    ("code", with_code, theirs_with_code, 0.025),
    ("chunks", in_chunks, theirs(15), 0.025),
    ("restored", lambda: restored(lambda stop: ours(stop)()),
     lambda: restored(h.continuerun), 0.025),
):
    results[name] = []
    for go in (own, neuron):
        begin(dt)
        go()
        results[name].append(found())
print(json.dumps(results))
"""


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_numbers_and_all_else_are_those_of_neuron(engine):
    results = forked.result_of(f"{START}ENGINE = {engine!r}{MODEL}{RUNS}")
    for name, ((exact, near, after), (of_exact, of_near, of_after)) in results.items():
        assert exact == of_exact, name
        assert after == of_after, name
        assert len({*exact[0]}) > 100 and exact[0] != exact[1]  # two draws in each step
        for mine, true in zip(near, of_near, strict=True):
            assert len(mine) == len(true)
            off = max(abs(a - b) for a, b in zip(mine, true, strict=True))
            assert off <= 1e-9 * max(map(abs, true)), name  # as in `test_run`


OTHERS = """
random = h.Random()

def compare(own, neuron, *recorded):
    both = []
    for go in (own, neuron):
        random.Random123(1, 2, 3)
        random.uniform(0.01, 4)
        h.finitialize(-65)
        go(12)
        both.append([[list(x) for x in recorded], random.seq(), h.t])
    return [both[0] == both[1], [len(x) for x in both[0][0]]]

def ours(stop):
    clhines.neuron.run(stop, engine="reference")

def switched(stop):
    with clhines.neuron.enable(engine="reference", strict=True) as switch:
        h.continuerun(stop)
    assert switch.steps == round(stop / h.dt)

def single(stop):
    clhines.neuron.run(stop, engine="reference", dtype="float32")

found = {}
stim, times = with_values(h.NetStim(), start=0, number=1e9), h.Vector()
netcon = h.NetCon(stim, None)
netcon.record(times)
random.play(stim._ref_interval)
found["artificial cells alone"] = compare(ours, h.continuerun, times)
soma, other = sections = [h.Section(name=name) for name in "ab"]
for section in sections:
    section.L = section.diam = 20
    section.insert("pas")
interval = h.Vector().record(stim._ref_interval)
found["switch"] = compare(switched, h.continuerun, interval)
found["float32"] = compare(single, h.continuerun)
pc = h.ParallelContext()
junctions = [h.imp_gap(section(0.5)) for section in sections]
for k, section in enumerate(sections):
    pc.source_var(section(0.5)._ref_v, k, sec=section)
    pc.target_var(junctions[k], junctions[k]._ref_vother, 1 - k)
pc.setup_transfer()
found["gap junctions"] = compare(ours, h.continuerun, interval)
print(json.dumps(found))
"""


def test_other_models_and_ways_of_running_draw_the_same():
    """Compare models without sections, by the switch, in single precision, with transfers."""
    result = forked.result_of(START + OTHERS)
    for name, (same, lengths) in result.items():
        assert same, name
        if name == "artificial cells alone":
            assert lengths[0] > 3  # events, at the same times
        else:
            assert lengths == ([] if name == "float32" else [481]), name


GIVEN_BACK = """
ways = {
    "uniform": (0, 1), "discunif": (1, 9), "normal": (0, 1), "lognormal": (1, 1),
    "binomial": (9, 0.3), "poisson": (3,), "geometric": (0.7,), "hypergeo": (2, 5),
    "negexp": (2,), "erlang": (2, 1), "weibull": (2, 3),
}
soma = make_section("soma", "hh")
randoms, clamps = [], []
for way, arguments in ways.items():
    for generator in ("Random123", "MCellRan4"):
        random, clamp = h.Random(), h.IClamp(soma(0.5))
        getattr(random, generator)(*range(1, 1 + (3 if generator == "Random123" else 1)))
        getattr(random, way)(*arguments)
        random.play(clamp._ref_amp)
        randoms.append(random)
        clamps.append(clamp)
recorded = [h.Vector().record(clamp._ref_amp) for clamp in clamps]
found = {"said": [], "numbers": []}

def numbers(ours, steps):
    for random, (way, arguments) in zip(randoms, [w for w in ways.items() for _ in range(2)]):
        getattr(random, way)(*arguments)  # draws
        random.repick()  # an even number of draws: none of a normal one is kept
        random.seq(8)
    h.finitialize(-65)  # now one is
    before = [clamp.amp for clamp in clamps]
    if ours is not None:
        for engine in ("none", "reference")[: ours + 1]:
            said = refusal(clhines.neuron.run, h.t + steps * h.dt, engine=engine)
            if said:
                found["said"].append(said)
                assert [clamp.amp for clamp in clamps] == before and h.t == 0
    h.continuerun(12 * h.dt)
    found["numbers"].append([list(x) for x in recorded])

for ours, steps in ((None, 0), (0, 4), (0, 5), (1, 4), (1, 5)):
    numbers(ours, steps)
print(json.dumps(found))
"""


def test_a_run_that_fails_gives_its_numbers_back():
    """After a failed run NEURON draws the same numbers as without it, for every generator."""
    result = forked.result_of(START + GIVEN_BACK)
    assert len(result["said"]) == 4 and all("engine=" in line for line in result["said"])
    truth, *others = result["numbers"]
    assert all(len({*row}) > 3 for row in truth) and len(truth[0]) == 13
    for other in others:
        assert other == truth


REFUSED = """
soma = make_section("soma", "hh", L=20, diam=20)
clamp, random = with_values(h.IClamp(soma(0.5)), dur=1e9), h.Random(1)
random.uniform(0, 0.1)
v = h.Vector().record(soma(0.5)._ref_v)
h("mine = 1")
found = {}

def look(name, reference, *vectors):
    global random
    random = h.Random(1)
    random.uniform(0, 0.1)
    random.play(reference)
    h.finitialize(-65)
    before = random.seq()
    lines = listed()
    message = refusal(clhines.neuron.run, 1, engine="reference")
    found[name] = [lines, message, random.seq() == before]
    random = None
    clamp.amp = 0.1

for name, reference in (
    ("v", soma(0.5)._ref_v), ("m", soma(0.5).hh._ref_m), ("celsius", h._ref_celsius),
    ("ena", soma(0.5)._ref_ena), ("mine", h._ref_mine), ("diam", soma(0.5)._ref_diam),
):
    look(name, reference)
times, values = h.Vector([0, 1]), h.Vector([0, 1])
values.play(clamp._ref_amp, times, 1)
look("amp", clamp._ref_amp)
values.play_remove()
random = h.Random(1)
random.play(clamp._ref_amp)
h.finitialize(-65)
try:
    clhines.from_neuron()
except clhines.InputError as error:
    found["from_neuron"] = [["Random.play"], str(error), True]
random = None

# a model that is kept sees a Random that is played later, and one that is gone
def run(stop):
    clhines.neuron.run(stop, engine="reference")

later = []
for way in (run, h.continuerun):
    clamp.amp = 0.1
    h.finitialize(-65)
    way(1)
    random = h.Random(1)
    random.uniform(0, 0.1)
    random.play(clamp._ref_amp)
    way(3)
    random = None
    way(5)
    later.append(list(v))
found["later"] = [len(later[0]), len(later[1]), float(np.abs(np.subtract(*later)).max())]
print(json.dumps(found))
"""


def test_what_cannot_be_played_is_rejected_by_name_and_nothing_drawn():
    result = forked.result_of(START + REFUSED)
    ours, theirs, off = result.pop("later")
    assert ours == theirs == 201 and off < 65e-9  # as in `test_run`
    for name, (lines, message, kept) in result.items():
        assert kept and len(lines) == 1 and "Random.play" in lines[0], (name, lines)
        assert name == "from_neuron" or name in lines[0]
        assert lines[0] in message, (name, message)
