"""Functions of CVode.extra_scatter_gather, compared with NEURON."""

import pytest
from forked import printed_by

pytestmark = pytest.mark.neuron


SCATTER = """
import itertools
soma, child = h.Section(name="soma"), h.Section(name="child")
child.connect(soma(1))
for section in (soma, child):
    section.L, section.diam, section.nseg = 80, 10, 3
    section.insert("hh")
segments = [segment for section in (soma, child) for segment in section]
clamp = with_values(h.IClamp(soma(0.1)), delay=1, dur=10, amp=0.7)
cvode, pc = h.CVode(), h.ParallelContext()
cvode.use_fast_imem(1)
pc.set_maxstep(10)
v = h.Vector().record(child(0.5)._ref_v)
# as hnn-core's functions
pointers, current, potentials = h.PtrVector(6), h.Vector(6), h.Vector()
for k, segment in enumerate(segments):
    pointers.pset(k, segment._ref_i_membrane_)
transfer = h.Matrix(2, 6)
for i, j in itertools.product(range(2), range(6)):
    transfer.setval(i, j, (i + 1) / (j + 1))
read = []

def gather():
    pointers.gather(current)
    potentials.append(transfer.mulv(current))

class Summing:
    def potentials(self, scale):
        read.append([scale * soma(0.5).v, *(segment.i_membrane_ for segment in segments)])

def timed():
    read.append([h.t, *(segment.v for segment in segments)])

def of(way, *functions):
    h.dt = 0.025
    for function in functions:
        cvode.extra_scatter_gather(0, function)
    read.clear(), potentials.resize(0), v.record(child(0.5)._ref_v)
    h.finitialize(-65)
    message, reasons = "", ()
    try:
        reasons = way() or ()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    for function in functions:
        cvode.extra_scatter_gather_remove(function)
    return [[*map(list, read)], list(potentials), list(v), message, h.t, reasons]

def in_pieces():
    for stop in (3, 3.05, 12):
        clhines.neuron.run(stop, engine="reference")

def solved():
    pc.psolve(5)
    pc.psolve(12)

def switched(way, **options):
    def call():
        with clhines.neuron.enable(engine="reference", **options) as on:
            way()
            return [on.steps, *on.reasons]
    return call

def loop():
    while h.t < 12:
        h.fadvance()

def ended(way):
    def call():
        cvode.event(5, lambda: cvode.extra_scatter_gather_remove(timed))
        way(12)
    return call

reader = Summing()
functions = gather, (reader.potentials, 2), timed
same = {
    "run": [of(lambda: h.continuerun(12), *functions), of(in_pieces, *functions)],
    "psolve": [of(solved, *functions[:2]), of(switched(solved), *functions[:2])],
    "loop": [of(loop, *functions), of(switched(loop), *functions)],
    "ended": [of(ended(h.continuerun), timed),
              of(ended(lambda t: clhines.neuron.run(t, engine="reference")), timed)],
    "list": [of(lambda: h.continuerun(3), gather, gather, timed),
             of(lambda: clhines.neuron.run(3, engine="reference"), gather, gather, timed)],
}
other, one, append = h.PtrVector(1), h.Vector(1), v.append
state = soma(0.5).hh._ref_m
other.pset(0, state)
asked = {
    "reads m_hh": lambda: soma(0.5).m_hh, "reads hh": lambda: soma(0.5).hh.m,
    "by a reference": lambda: state[0], "reads _ref_v": lambda: soma(0.5)._ref_v[0],
    "reads i;": lambda: clamp.i, "of other variables": lambda: other.gather(one),
    "reads psection": lambda: soma.psection(), "reads stoprun": lambda: h.stoprun,
    "sets a variable": lambda: setattr(child(0.5), "v", child(0.5).v + 0.1),
    "sets a variable, ": lambda: setattr(clamp, "amp", 0.8),
    "calls <TopLevel": lambda: h("mine = 1"), "calls fcurrent": h.fcurrent,
    "reads IClamp": lambda: h.IClamp, "reads record": lambda: one.record,
}
for name, use in (("[", lambda: v[0]), ("len", lambda: len(v)), ("sum", lambda: sum(v)),
                  ("+", lambda: one + v), ("copy", lambda: one.copy(v)),
                  ("numpy", lambda: np.array(v)), ("append", lambda: append(3))):
    asked["uses Vector" + " " * len(asked)] = use
def tried(use):
    def function():
        try:
            use()
        except Exception:  # a function may go on
            pass
    return function
run = lambda: clhines.neuron.run(1, engine="reference")
found = {"same": same, "rejected": [[what, of(run, tried(use))] for what, use in asked.items()]}
found["psolve"] = of(switched(solved, strict=True), timed)
warnings.resetwarnings()
found["left"] = [of(way, tried(asked["reads m_hh"]), gather, timed)
                 for way in (solved, switched(solved))]
def late():
    read.append([h.t])
    if len(read) > 20:
        tried(asked["reads m_hh"])()
def fails():
    read.append([h.t])
    if len(read) > 20:
        raise KeyError("mine")
found["late"] = of(switched(lambda: h.continuerun(2)), late)
found["fails"] = of(run, fails)
cvode.extra_scatter_gather(0, gather)
h.finitialize(-65)
found["from_neuron"] = refusal(clhines.from_neuron)
h("proc advance() { fadvance() mine = v(0.5) }")
h.finitialize(-65)
found["advance"] = listed()
print(json.dumps(found))
"""


def test_functions_of_extra_scatter_gather_have_neurons_values_or_are_rejected():
    """NEURON calls them within a step; v and i_membrane_ already have the values of its end."""
    import numpy as np

    result = printed_by(SCATTER)
    for name, runs in result["same"].items():
        for ours, theirs in zip(runs[1][:3], runs[0][:3], strict=True):
            ours, theirs = np.array(ours), np.array(theirs)
            assert ours.shape == theirs.shape, name
            assert theirs.size or name == "ended", name
            off = np.abs(ours - theirs).max(initial=0)
            assert off < 1e-9 * np.abs(theirs).max(initial=1e-9), name  # as in `test_run`
    assert np.ptp(result["same"]["run"][0][2]) > 80
    assert result["same"]["psolve"][1][-1] == [480]
    for what, (*_, message, t, _) in result["rejected"]:
        line = "CVode.extra_scatter_gather(0, f): f "
        assert line in message and what.strip() in message, (what, message)
        assert t < 0.0251  # after NEURON's own step, in which it is seen
    assert "reads t in psolve" in result["psolve"][3]
    theirs, ours = result["left"]
    assert ours[:5] == theirs[:5] and "reads m_hh" in ours[5][1]
    for name, error in (("late", "GatherError"), ("fails", "KeyError")):
        *_, message, t, _ = result[name]
        assert message.startswith(error) and abs(t - 0.025) < 1e-9, message
    assert "CVode.extra_scatter_gather(0, f)" in result["from_neuron"]
    assert [line.startswith("advance() of the model's own") for line in result["advance"]] == [True]
