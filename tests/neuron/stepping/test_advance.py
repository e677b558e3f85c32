"""A model's own advance() runs here if it only steps and draws; otherwise NEURON takes the run."""

import forked
import pytest

pytestmark = pytest.mark.neuron
TOLERANCE = 1e-9  # mV, as in switch/test_hooks
PROGRAM = """
import io, json
from contextlib import redirect_stderr
from clhines.neuron.memory.symbols import standard
soma = make_section("soma", "hh", L=20, diam=20)
clamp, v = h.IClamp(soma(0.5)), h.Vector().record(soma(0.5)._ref_v)
clamp.amp, clamp.dur = 0.3, 100
h("objref shown, several[2], shape, nothing, listed, total, vector")
h.shown, h.several[0], h.several[1] = h.Graph(0), h.Graph(0), h.Graph(0)
h.shape, h.listed, h.vector = h.Shape(0), h.List(), h.Vector(1)
h.listed.append(h.shown)
h("mine = 0")
h("func more() { mine += 1\\n return mine }")
h("begintemplate Drawer\\npublic plot\\nproc plot() { v(0.5) = v(0.5) + 0.1 }\\n"
  "endtemplate Drawer")
h("total = new Drawer()")
RUN = {  # statements, each on a line
    "advance": [
        "fadvance()", "fadvance(); return", "fadvance(); shown.plot(t)",
        "shown.plot(t); fadvance(); shown.flush(); doNotify()",
        "fadvance(); several[1].plot(t, v(0.5) + 2*mine - dt); several[0].fastflush()",
        'fadvance(); shown.begin(); shown.line(t, v); shape.flush(); shown.label(0, 0, "a")',
    ],
    "step": ["advance(); Plot(); shown.flush()", "fadvance()"],
    "Plot": ["shown.plot(t); doEvents()"],
}
LEFT = {
    "advance": [
        "fadvance(); fadvance()", "fadvance(); mine = t", "fadvance(); shown.plot(more())",
        "fadvance(); shown.plot(mine = 1)", "fadvance(); v(0.5) = v(0.5) + 0.1",
        "if (t < 9) { fadvance() }", "fadvance(); if (mine) { shown.plot(t) }",
        "fadvance(); total.plot(t)", "fadvance(); listed.o(0).plot(t)",
        "fadvance(); vector.resize(3)", "fadvance(); stoprun = t > 3", "fadvance(); print t",
        "fadvance(); shown = shape", "fadvance(); shown.erase_all()", "fcurrent(); fadvance()",
    ],
    "step": ["advance(); advance()", "advance(); mine += 1"],
    "Plot": ["mine += 1"],
}

def look(name, body, strict):
    text = body.replace("; ", "\\n")
    assert h(f"proc {name}() {{\\n{text}\\n}}"), body
    said = io.StringIO()
    h.tstop = 5
    truth = taken()
    with redirect_stderr(said), clhines.neuron.enable(engine="reference", strict=strict) as on:
        got = taken()
    h.stdinit()
    lines = listed()
    h(STANDARD[name])
    off = max(map(abs, map(float.__sub__, truth, got)), default=0) if len(truth) == len(got) else -1
    return [name, body, off, on.steps, on.reasons, said.getvalue().splitlines(), lines]

def taken():
    h.mine = 0
    h.run()
    return [*v, h.t, h.mine]

STANDARD = {name: standard(h, name) for name in ("step", "Plot")}
STANDARD["advance"] = "proc advance() { fadvance() }"
found = [[look(n, body, True) for n, all_ in RUN.items() for body in all_],
         [look(n, body, False) for n, all_ in LEFT.items() for body in all_]]
print(json.dumps(found))
"""


def test_advance_runs_if_it_equals_an_example_or_draws():
    runs, others = forked.result_of(
        PROGRAM.replace("clhines.read_hoc", "clhines.neuron.read.hooks")
    )
    told = list[str]()
    for name, body, off, steps, reasons, said, listed in runs:
        assert 0 <= off < TOLERANCE and steps == 200, (name, body)
        assert reasons == listed == [], (name, body)
        told += said
    assert told == ["clhines: graphs get no points during a run on the device"]  # once
    for name, body, off, steps, reasons, said, listed in others:
        assert (off, steps) == (0, 0), (name, body, off, steps)
        assert len(listed) == 1 and listed[0].startswith(f"{name}() of the model's own"), body
        assert said == [f"clhines: stepped by NEURON: {reasons[0]}"], (name, body)
        assert f"{name}() of the model's own" in reasons[0], body
