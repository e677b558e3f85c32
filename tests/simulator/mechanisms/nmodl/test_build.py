"""NMODL: single compartments against NEURON, and what is refused."""

import importlib.util
import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mod_files
import numpy as np
import pytest
from nmodl_cases import CASES
from nmodl_compare import OWN, mechanism, simulated, wheel

import clhines
from clhines import Network, Simulation
from clhines.core.errors import InputError
from clhines.simulator.kinds.layouts import in_vectors
from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms import mechanism as built_in
from clhines.simulator.mechanisms.ir import expressions
from clhines.simulator.mechanisms.nmodl import NmodlError, rejections
from clhines.solver.device.devices import limits

ORACLE = Path(__file__).with_name("nmodl_oracle.py")
STEPS = {0.025: 600, 0.1: 150}  # 15 ms
# Both sides do the same operations in another order: some 100 a step, each off by 1e-16 of what it
# works out, over 600 steps, where a state forgets within tens of ms: below 1e-11. The slope of a
# current is NEURON's quotient of a difference of 0.001 mV, which loses 5 digits of the slope, not
# of the current: another 1e-16/1e-3*60 mV a step.
TOLERANCE = 1e-9

needs_neuron = pytest.mark.skipif(
    importlib.util.find_spec("neuron") is None or shutil.which("c++") is None,
    reason="needs NEURON and a C++ compiler",
)


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """What NEURON gives for every case at each dt; its .mod files are compiled once."""
    folder = tmp_path_factory.mktemp("nmodl")
    specs = [
        {**case, "name": f"{case['name']}@{dt}", "dt": dt, "steps": steps}
        for dt, steps in STEPS.items()
        for case in CASES
    ]
    (folder / "specs.json").write_text(json.dumps(specs))
    library = mod_files.compiled()
    given = [str(folder / name) for name in ("specs.json", "out.npz")]
    done = subprocess.run(
        [sys.executable, str(ORACLE), *given], cwd=library, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(folder / "out.npz") as found:
        return dict(found)


@needs_neuron
@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_as_neuron(reference, case, dt):
    name = f"{case['name']}@{dt}"
    expected = reference[name]
    extra = {k.split("/")[1]: x for k, x in reference.items() if k.startswith(name + "/")}
    found = simulated({**case, "dt": dt, "steps": STEPS[dt]}, extra)
    size = np.abs(expected).max(axis=0)
    assert size[0] > 20 and np.ptp(expected[:, 0]) > 1  # the voltage moves
    error = np.abs(found - expected).max(axis=0)
    names = ["v", *(r[1] for r in case["records"])]
    near = error <= case.get("within", TOLERANCE) * size
    assert dict(zip(names, near, strict=True)) == dict.fromkeys(names, True)


def _with(body, neuron="RANGE x", more=""):
    return (
        f"NEURON {{ SUFFIX one\n {neuron} }}\nASSIGNED {{ v x }}\nSTATE {{ m }}\n"
        f"BREAKPOINT {{ SOLVE s METHOD cnexp\n x = m }}\nDERIVATIVE s {{ m' = -m }}\n{more}\n"
        f"INITIAL {{\n{body}\n}}\n"
    )


def _diffusing(statements, neuron="RANGE x", more=""):
    text = _with("", neuron, more).replace("{ m' = -m }", "{\n" + statements + "\n~ m << (1)\n}")
    text = text.replace("DERIVATIVE", "KINETIC").replace("cnexp", "sparse")
    return text.replace("{D}", "LONGITUDINAL_DIFFUSION")


TWO_STATES = (
    "NEURON { SUFFIX two }\nPARAMETER { p = 1 }\nSTATE { a b }\nINITIAL { a = 1 b = 0 }\n"
    "BREAKPOINT { SOLVE k METHOD sparse }\n"
)
END = "ENDVERBATIM"
REFUSED = {  # text, what is refused, and what stands in its line
    "return in a loop": (
        _with("FROM k=0 TO 2 { VERBATIM\nreturn;\nENDVERBATIM\n}"),
        "VERBATIM: a return there",
        "VERBATIM",
    ),
    "return beside a LOCAL": (
        _with("if (v > 0) { LOCAL x\nx = 2\nVERBATIM\nreturn;\nENDVERBATIM\n}\nx = 1"),
        "VERBATIM: a return beside a LOCAL",
        "if",
    ),
    "VERBATIM": (_with("VERBATIM\n x = *y;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "whole quotient": (_with("VERBATIM\n x = 1/2;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "rounded": (_with("VERBATIM\n int k = 0.5;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "falls through": (
        _with("LOCAL k\nVERBATIM\n switch (_lk) { case 1: x = 2; case 2: x = 3; }\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "v of an event": (
        _with("VERBATIM\n x = v;\nENDVERBATIM").replace("INITIAL", "NET_RECEIVE(w)"),
        "VERBATIM",
        "VERBATIM",
    ),
    "v of a function of events": (
        "NEURON { POINT_PROCESS one\nNONSPECIFIC_CURRENT i }\nASSIGNED { v i x }\n"
        "BREAKPOINT { i = x*v }\nFUNCTION f() {\nf = v }\nNET_RECEIVE(w) { x = f() }",
        "v in f, which is of the step before",
        "f = v",
    ),
    "v set for events alone": (
        _with("f()").replace("INITIAL", "PROCEDURE f() {\nv = -70 }\nNET_RECEIVE(w)"),
        "v is set in f, but not in NET_RECEIVE",
        "v = -70",
    ),
    "v set for each connection": (
        _with("FOR_NETCONS(a) {\nv = a }").replace("INITIAL", "NET_RECEIVE(w)"),
        "v is set in FOR_NETCONS",
        "v = a",
    ),
    "v set for a connection": (
        _with("INITIAL {\nv = w }").replace("INITIAL", "NET_RECEIVE(w)", 1),
        "v is set in INITIAL of NET_RECEIVE",
        "v = w",
    ),
    "v set in a loop": (
        _with("WHILE (x < v) {\nx = x + 1 v = 3\n}"),
        "v is set in a loop",
        "v = 3",
    ),
    "hidden by a LOCAL": (
        _with("LOCAL m\nVERBATIM\n x = m;\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "braces of others": (
        _with(
            "VERBATIM\n if (x > 0) {\nENDVERBATIM\nx = 2 VERBATIM\nfprintf(f, &x); }\nENDVERBATIM"
        ),
        "VERBATIM",
        "x = 2",
    ),
    "left out": (
        _with("VERBATIM\n#if 0\nENDVERBATIM\nx = 2\nVERBATIM\n#endif\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "a body without braces": (  # what follows it may not go with it
        _with('VERBATIM\n if (x > 0) puts("x"); x = 2;\nENDVERBATIM'),
        "VERBATIM",
        "VERBATIM",
    ),
    "a body behind the block": (
        _with("VERBATIM\n if (x > 0)\nENDVERBATIM\nx = 2"),
        "VERBATIM",
        "VERBATIM",
    ),
    "braces of NMODL": (
        _with("if (x > 0) {\nVERBATIM\n f(); } else { f();\nENDVERBATIM\nx = 2 }"),
        "VERBATIM",
        "VERBATIM",
    ),
    "diam of C": (_with("VERBATIM\n x = diam;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "pointer in C": (
        _with("VERBATIM\n if (_p_q) x = 2;\nENDVERBATIM", "POINTER q", "ASSIGNED { q }"),
        "VERBATIM",
        "VERBATIM",
    ),
    "POINTER set in BREAKPOINT": (
        _with("", "NONSPECIFIC_CURRENT i\nPOINTER p\n", "ASSIGNED { i p }").replace(
            "x = m", "p = 3\ni = 0"
        ),
        "POINTER p is written in BREAKPOINT",
        "p = 3",
    ),
    "POINTER set by an event": (
        _with("", "POINTER p", "ASSIGNED { p }\nNET_RECEIVE(w) { p = p + w }\nINITIAL { x = p }"),
        "POINTER p, which NET_RECEIVE writes, is used elsewhere, too",
        "POINTER p",
    ),
    "POINTER set from itself": (
        _with("p = 3*p", "POINTER p", "ASSIGNED { p }"),
        "POINTER p is set but from itself in INITIAL",
        "POINTER p",
    ),
    "POINTER set where others add": (
        _with("", "POINTER p", "ASSIGNED { p }\nAFTER SOLVE { p = 3 }"),
        "POINTER p is other than added to in AFTER SOLVE",
        "POINTER p",
    ),
    "POINTER written and read": (
        _with("p = 3", "POINTER p", "ASSIGNED { p }\nAFTER SOLVE { x = p }"),
        "POINTER p is written and read",
        "POINTER p",
    ),
    "BBCOREPOINTER": (
        _with("x = p", "BBCOREPOINTER p", "ASSIGNED { p }"),
        "BBCOREPOINTER p",
        "x = p",
    ),
    "FUNCTION_TABLE": (_with("x = f(3)", more="FUNCTION_TABLE f(a)"), "FUNCTION_TABLE f", "f(3)"),
    "recursion": (
        _with("x = f(v)", more="FUNCTION f(a) { f = g(a) }\nFUNCTION g(a) { g = f(a) }"),
        "f calls itself",
        "g = f(a)",
    ),
    "undeclared": (_with("x = nothing"), "'nothing' is not declared", "nothing"),
    "unknown function": (_with("x = poisson(v)"), "the function poisson", "poisson"),
    "draw while solving": (
        _with("").replace("m' = -m", "m' = -random_uniform(r)").replace("RANGE x", "RANDOM r"),
        "random_uniform in advance",
        "m' =",
    ),
    "setids": (_with("random_setids(r, 1, 2, 3)", "RANDOM r"), "random_setids", "setids"),
    "normrand while solving": (
        _with("").replace("m' = -m", "m' = normrand(0, 1) - m").replace("cnexp", "derivimplicit"),
        "normrand in advance",
        "m' =",
    ),
    "a rate's value": (
        _with("", more="ASSIGNED { y }").replace("m' = -m", "m' = -m\n y = m'"),
        "m' in an expression, with METHOD cnexp",
        "y = m'",
    ),
    "a rate of no state": (
        _with("").replace("m' = -m", "m' = -x'"),
        "x' in an expression, of what is no single state",
        "m' = -x'",
    ),
    "set_seed in a step": (
        _with("").replace("x = m", "set_seed(3)"),
        "set_seed in advance",
        "set_seed",
    ),
    "factor of a state": (
        _with("").replace("m' = -m", "m' = -m*scop_random()"),
        "a random number that is a factor of m in m'",
        "m' =",
    ),
    "two draws in a call": (
        _with("x = atan2(random_uniform(r), random_uniform(r))", "RANDOM r"),
        "arguments of one call that draw or set variables",
        "atan2",
    ),
    "an argument that another sets": (
        _with("x = atan2(m, f(2))", more="FUNCTION f(a) { m = a f = a }"),
        "arguments of one call that draw or set variables",
        "atan2",
    ),
    "of no file": (_with("x = nowhere(v)"), "the function nowhere, which the file", "nowhere"),
    "singular": (
        _with("SOLVE q", more="LINEAR q { ~ m = 1 \n ~ 0*v = 3 }"),
        "2 equations for 1 states",
        "LINEAR q",
    ),
    "method": (_with("").replace("cnexp", "adams"), "METHOD adams", "SOLVE"),
    "not closed": ("NEURON { SUFFIX one\nRANGE x", "'{' without its '}'", "NEURON"),
    "INCLUDE": (_with('x = 3\n}\nINCLUDE "no.inc"\nINITIAL {'), "no.inc", "INCLUDE"),
    "FROM": (_with("FROM k=0 TO 3 BY v { x = k }"), "FROM with a step", "FROM k"),
    "array": (_with("y[3] = 1", "RANGE y", "ASSIGNED { y[3] }"), "y[3] of 3", "y[3] = 1"),
    "index of many": (
        _with("y[v] = 1", "RANGE y", "ASSIGNED { y[1100] }"),
        "an index that is not constant, of more than 1024 elements",
        "y[v] = 1",
    ),
    "a hidden parameter": (
        _with("y = 1", more="PARAMETER { y = 2 }\nLOCAL y"),
        "'y' is declared twice",
        "LOCAL y",
    ),
    "index of no array": (_with("x[v] = 1"), "'x' is no array", "x[v] = 1"),
    "index of an argument": (
        "NEURON { SUFFIX a RANGE x }\nASSIGNED { v x }\n"
        "FUNCTION f(y) { f = y[v] }\nINITIAL { x = f(2) }",
        "'y' is no array",
        "FUNCTION f",
    ),
    "compared element": (
        "NEURON { POINT_PROCESS p }\nASSIGNED { v y[3] }\nNET_RECEIVE(w) {\n"
        " if (y[w] > 3) { WATCH (v > 0) 2 } }",
        "a WATCH by a comparison with an element whose index is not constant",
        "if (y[w]",
    ),
    "delay of a turn": (
        "NEURON { ARTIFICIAL_CELL a }\nPARAMETER { d = 2 }\nNET_RECEIVE(w) {\n"
        " IF (flag == 0) {\n FROM k = 1 TO 3 {\n net_send(k*d, 1) } } }",
        "net_send(k * ...): NEURON puts t + before the loop's k",
        "net_send(k*d",
    ),
    "bounds that change": (
        _with("FROM k = 0 TO 2*x { f() }", more="PROCEDURE f() { x = 1 }"),
        "FROM whose turns change its bounds",
        "FROM k",
    ),
    "SOLVE in a loop": (
        _with("").replace("SOLVE s METHOD cnexp", "FROM k=0 TO 1 { SOLVE s METHOD cnexp }"),
        "SOLVE s in a loop",
        "SOLVE",
    ),
    "used before FOR_NETCONS": (
        _with("m = m + a\n FOR_NETCONS(w2, a2) { a2 = 0.9*a2 }").replace(
            "INITIAL", "NET_RECEIVE(w, a)"
        ),
        "'a' is used before FOR_NETCONS",
        "FOR_NETCONS",
    ),
    "changing table": (
        _with(
            "f(v)",
            "RANGE x, y",
            "ASSIGNED { y }\nPROCEDURE f(a) { TABLE x FROM 0 TO 1 WITH 9\n x = a*y }\n"
            "BEFORE STEP { y = v }",
        ),
        "TABLE of f depends on 'y'",
        "PROCEDURE f",
    ),
    **{
        f"changing table, {what}": (
            _with(
                "f(v)",
                f"RANGE x, y, z {neuron}",
                f"ASSIGNED {{ y z p }}\nPROCEDURE f(a) {{ TABLE x DEPEND {depend}\n"
                f"FROM 0 TO 1 WITH 9\n {sets} = a*y }}\nBEFORE STEP {{ y = v }}",
            ),
            message,
            "PROCEDURE f",
        )
        for what, neuron, depend, sets, message in (
            ("looked at once a step", "", "y", "x", "TABLE of f depends on 'y', which changes"),
            ("thread safe", "POINTER p THREADSAFE", "y", "x", "TABLE of f depends on 'y'"),
            ("of another", "POINTER p", "p", "x", "TABLE of f depends on 'y', which changes"),
            ("left out", "POINTER p", "y", "z", "TABLE of f leaves out what f sets"),
        )
    },
    "shared": (
        _with("q = v", "RANGE x", "LOCAL q\nAFTER SOLVE { x = q }\nBEFORE STEP { q = v }"),
        "'q' is one for all instances",
        "LOCAL q",
    ),
    "in turn": (
        _with("q = q + 1", "RANGE x", "LOCAL q\nAFTER SOLVE { x = q }"),
        "'q' is one for all instances",
        "LOCAL q",
    ),
    **{
        f"rate {what}": (
            TWO_STATES + "KINETIC k { ~ a <-> b (" + rates + ") }",
            "a rate that is a sum or a comparison, of which NEURON takes the end alone",
            "~ a <-> b",
        )
        for what, rates in (("forward", "p + 0.2, 0.1"), ("backward", "(p + 0.2), -0.1*p - 1"))
    },
    **{
        f"in an IF: {what}": (
            TWO_STATES + f"KINETIC k {{ if (v > 0) {{ {text} }}\n {more} }}",
            f"{what} in an IF",
            text,
        )
        for what, text, more in (
            ("a reaction with '<->' or '->'", "~ a <-> b (1, 2)", "~ a << (1)"),
            ("CONSERVE", "CONSERVE a + b = 1", "~ a <-> b (1, 2)"),
        )
    },
    "in an IF: an equation": (
        _with("SOLVE q", more="LINEAR q { if (v > 0) { ~ m = 1 } }"),
        "an equation in an IF",
        "~ m = 1",
    ),
    "two schemes": (
        TWO_STATES + "KINETIC k { ~ a <-> b (1, 1) }\nKINETIC other { ~ a << (1) }",
        "KINETIC k, in a file with two",
        "KINETIC k",
    ),
    **{
        f"diffusion {what}": (
            *(_diffusing(*given), message.replace("{D}", "LONGITUDINAL_DIFFUSION")),
            "LONGITUDINAL_DIFFUSION",
        )
        for what, message, *given in (
            ("alone", "of 'm', which no COMPARTMENT before it has", "{D} 1 {m}"),
            ("before", "which no COMPARTMENT before it has", "{D} 1 {m}\nCOMPARTMENT 1 {m}"),
            ("of no state", "of 'x', which is no state", "COMPARTMENT 1 {x}\n{D} 1 {x}"),
            ("twice", "a second {D} of 'm'", "COMPARTMENT 1 {m}\n{D} 1 {m}  {D} 2 {m}"),
            ("of itself", "depends on 'm'", "COMPARTMENT 1 {m}\n{D} 1 + m {m}"),
            ("of v", "{D} or COMPARTMENT depends on 'v'", "COMPARTMENT v {m}\n{D} 1 {m}"),
            ("of t", "{D} or COMPARTMENT depends on 't'", "COMPARTMENT 1 {m}\n{D} t {m}"),
            (
                *("of an ion", "depends on 'cai'", "COMPARTMENT 1 {m}\n{D} cai {m}"),
                *("USEION ca READ cai", "ASSIGNED { cai }"),
            ),
            ("in IF", "{D} in IF or FROM", "COMPARTMENT 1 {m}\nif (x > 0) { {D} 1 {m} }"),
            (
                *("that sets", "or COMPARTMENT calls what sets variables"),
                *("COMPARTMENT 1 {m}\n{D} f(2) {m}", "RANGE x", "FUNCTION f(a) { x = a f = a }"),
            ),
        )
    },
    "diffusion of points": (
        _diffusing("COMPARTMENT 1 {m}\n{D} 1 {m}").replace("SUFFIX", "POINT_PROCESS"),
        "LONGITUDINAL_DIFFUSION in a point process",
        "LONGITUDINAL_DIFFUSION",
    ),
}


@pytest.mark.parametrize("body", ["q = v", "q = q + 1"])
def test_globals_that_a_step_begins_and_ends_with_are_of_one_instance(body):
    """BEFORE STEP of one instance reads what that of the one before has set."""
    more = f"ASSIGNED {{ q }}\nBEFORE STEP {{ x = q\n {body} }}"
    made = Mechanism.from_nmodl(_with("q = v", "RANGE x\n GLOBAL q", more))
    assert (made.program.alone, made.program.last) == (("q",), ())
    one, two = (
        Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2) for _ in range(2)
    )
    one.insert(made, [1])
    Simulation(one, dt=0.05, engine="reference").run(1)
    two.insert(made, [0, 1])
    with pytest.raises(InputError, match="one: each of its 2 instances sets q"):
        Simulation(two, dt=0.05, engine="reference")


@pytest.mark.parametrize("name", ["diam", "area", "celsius"])
def test_what_neuron_gives_to_every_file_needs_no_declaration(name):
    made = Mechanism.from_nmodl(_with(f"x = {name}"))
    declared = Mechanism.from_nmodl(_with(f"x = {name}", more=f"ASSIGNED {{ {name} }}"))
    assert made.program.built_in == declared.program.built_in == (name,)


@pytest.mark.parametrize(
    "body",
    [
        "x = atan2(random_uniform(r), 3*v) + 2^random_uniform(r)",
        "x = pow(f(2), v) + random_normal(r, m, 1 + v)",
        "x = f(1)*f(2)",
    ],
)
def test_one_argument_may_draw_or_set_what_the_others_do_not_read(body):
    text = _with(body, "RANDOM r", "ASSIGNED { y }\nFUNCTION f(a) { y = a f = y }")
    Mechanism.from_nmodl(text, path="some.mod")


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    text, construct, beside = REFUSED[which]
    if "NET_RECEIVE" in text:
        text = text.replace("SUFFIX", "POINT_PROCESS")
    line = 1 + next(k for k, part in enumerate(text.split("\n")) if beside in part)
    with pytest.raises(NmodlError) as caught:
        Mechanism.from_nmodl(text, path="some.mod")
    assert isinstance(caught.value, InputError)
    one, *others = caught.value.rejections
    assert not others or which == "braces of others"  # whose other block is told, too
    assert construct in one.construct
    assert (one.file, one.line) == ("some.mod", line)
    assert str(one).startswith(f"some.mod:{line}: ")
    assert pickle.loads(pickle.dumps(caught.value)).rejections == [one, *others]


def test_too_many_operations_are_refused_wherever_they_are_found(monkeypatch):
    text = _with("FROM k = 0 TO 2*x { y[v + k] = y[k] }\nx = y[v]", "RANGE x", "ASSIGNED { y[5] }")
    refused = 0
    for most in range(20, 2000, 3):
        monkeypatch.setattr(expressions, "MAX_NODES", most)
        found = rejections(text)
        if not found:
            break
        refused += 1
        assert {r.construct for r in found} == {f"an expression: more than {most} operations"}
    assert refused > 10 and not found


def test_all_refusals_at_once():
    text = _with("VERBATIM\n x = *y;\nENDVERBATIM").replace("x = m }", "x = poisson(m) }")
    found = rejections(text + "BEFORE STEP { x = nothing }\n")
    assert [r.construct.split()[0] for r in found] == ["VERBATIM", "the", "'nothing'"]
    assert [r.line for r in found] == [10, 6, 14]
    assert rejections(_with("x = 1")) == []


def test_every_verbatim_is_told():
    """Several of one block and of a function, once each, and nothing that follows from them."""
    block = "VERBATIM\n{} = *y;\nENDVERBATIM\n"
    calls = f"{block.format('x')}x = f(2) + f(3)\n{block.format('y')}"
    text = _with(calls) + f"FUNCTION f(a) {{\n{block.format('f')}}}\n"
    lines = [k for k, line in enumerate(text.split("\n"), 1) if line.endswith("VERBATIM")]
    found = rejections(text)
    assert [r.construct for r in found] == ["VERBATIM"] * 3
    assert sorted(r.line for r in found) == [
        k for k in lines if "END" not in text.split("\n")[k - 1]
    ]


TURNS = """
NEURON { SUFFIX turns NONSPECIFIC_CURRENT i RANGE x, a, b, n }
PARAMETER { x = 4.5 }
ASSIGNED { v i a b n }
INITIAL {
    LOCAL f
    n = 0 a = 0 b = 0 f = 0
    while (n < x) {
        n = n + 1
        if (n > 2) { a = a + n }
    }
    FROM k = 0 TO x {
        if (f == 1) { b = b + k }
        f = 1
    }
}
BREAKPOINT { i = 0.0001*(a + b + n) }
"""


def test_loops_keep_branches_that_the_first_turn_does_not_take():
    """By hand: sums of 3, 4 ... up to the first number from x on, and of 1, 2 ... up to x."""
    x = np.array([0.5, 1.0, 2.5, 4.5, 7.0])
    found = Mechanism.from_nmodl(TURNS).initial(np.full(5, -65.0), {"x": x})
    last, whole = np.ceil(x).astype(int), np.floor(x).astype(int)
    assert found["n"].tolist() == last.tolist()
    assert found["a"].tolist() == [sum(range(3, n + 1)) for n in last]
    assert found["b"].tolist() == [sum(range(1, n + 1)) for n in whole]


def test_mechanism_of_nmodl_is_a_value():
    one = mechanism("nmexpr")
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.program.states == one.program.states  # its INCLUDE is kept
    assert again.functions("double") == one.functions("double")
    plain = mechanism("nmtable", use_tables=False)
    assert plain != mechanism("nmtable") and not plain.program.tables


def test_nmodl_and_text_of_the_same_equations_are_called_alike():
    """States and currents of hh.mod and of the text, at several voltages."""
    one, other = mechanism("hh", use_tables=False), built_in("hh")
    v, ions = np.linspace(-90, 30, 7), {"ena": 50.0, "ek": -77.0}
    own = {name: other.defaults[name] for name in ("gnabar", "gkbar", "gl", "el")}
    start, expected = one.initial(v, {**own, **ions}), other.initial(v)
    assert list(start) == list(expected)
    steps = one.advance(v + 3, 1.0, 0.025, own, start), other.advance(v + 3, 1.0, 0.025, {}, start)
    currents = one.current(v, 1.0, {**own, **ions}, start), other.current(v, 1.0, {}, start)
    for name in start:
        np.testing.assert_allclose(start[name], expected[name], rtol=1e-13)
        np.testing.assert_allclose(steps[0][name], steps[1][name], rtol=1e-12)
    np.testing.assert_allclose(currents[0][0], currents[1][0], rtol=1e-12)
    np.testing.assert_allclose(currents[0][1], currents[1][1], rtol=1e-12)


def test_an_event_and_groups_of_nmodl():
    synapse, text = mechanism("ExpSyn"), built_in("expsyn")
    states = {"g": np.array([0.0, 0.25])}
    after = synapse.event(0.5, {}, states)
    np.testing.assert_array_equal(after["g"], text.event(0.5, {}, states)["g"])
    source, constants = synapse.grouped("double", 4, ["tau"])
    assert constants == ("_c0",) and "static void ExpSyn_constants(const real dt" in source
    assert "const real tau, const real _c0, real4 *g_)" in source
    pool = mechanism("nmcad")
    assert (
        pool.initial(-65.0).keys()
        == {"cai"}
        == pool.advance(-65.0, 0.0, 0.1, {"ica": -1e-3, "cai": 1e-4}, {}).keys()
    )


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("nmtable", lambda m: m.initial(-65), "nmtable: its initial needs the table 'rates'; exp"),
        ("nmrandom", lambda m: m.initial(-65), "its initial needs random numbers of 'first'"),
        ("nmkca", lambda m: m.initial(-65), "no value of ion 'cai'; expected it among the param"),
        ("nmpoint", lambda m: m.current(-65, 0), "no value of pointer 'other'; expected it among"),
        ("nmkca", lambda m: m.current(-65, 0, {"ek": -77}), "no value of state 'o'$"),
        ("nmcell", lambda m: m.current(-65, 0), "mechanism nmcell has no current"),
        ("nmcell", lambda m: m.event(1, {}, m.initial(0)), "its receive needs the time"),
        ("nmkca", lambda m: m.event(1, {}, {}), "nmkca takes no events"),
        ("nmkca", lambda m: m.initial(-65, {"cao": 1}), "nmkca has no parameter 'cao'; it has"),
        ("nmkca", lambda m: m.calls("watch"), "nmkca has no block 'watch'; it has initial, curr"),
        ("nmpoint", lambda m: m.grouped("double", 4, ()), "nmpoint has no groups: its current ta"),
    ],
)
def test_what_a_call_of_nmodl_cannot_do_is_said(name, call, message):
    with pytest.raises(InputError, match=message):
        call(mechanism(name))


def test_what_it_is():
    m = mechanism("nmsyn")
    assert (m.name, m.kind, m.takes_events) == ("nmsyn", "point", True)
    assert m.parameters == ("tau", "e", "late", "U", "trec")
    assert m.defaults["trec"] == 20 and m.units["tau"] == ""
    assert set(m.states) == {"g", "s", "onset", "n", "total", "moved"}
    net = m.program.net
    assert net.weights == ("w", "R", "last", "k") and not net.summed
    assert [s.kind for s in net.sends] == ["self", "move", "self"]
    text = m.describe()
    assert "advance:" in text and "send 1.time = " in text
    assert mechanism("ExpSyn").program.net.summed
    table = mechanism("nmtable").program.tables[0]
    assert table.columns == ("minf", "mtau") and table.n == 77
    assert table.depends == ("slope", "celsius")


def test_a_table_beside_an_initial_that_is_refused_is_no_error_of_its_own():
    table = "ASSIGNED { y }\nPROCEDURE f(a) { TABLE y FROM 0 TO 1 WITH 9\n y = a }"
    text = _with("f(v) x = nowhere(v)", "RANGE x, y", table)
    with pytest.raises(NmodlError, match="the function nowhere"):
        Mechanism.from_nmodl(text)


def test_a_name_that_no_file_can_have_is_an_error_of_input():
    with pytest.raises(InputError, match="is no path of a file"):
        Mechanism.from_nmodl("na\0.mod")


BESIDE = """NEURON { SUFFIX beside NONSPECIFIC_CURRENT i }
ASSIGNED { v i celsius q many minf }
BREAKPOINT { rates(v) i = 1e-5*q*many*minf*(v + 50) }
PROCEDURE rates(v) {
    TABLE minf DEPEND celsius FROM -100 TO 100 WITH 200
    minf = 1/(1 + exp(-(v + 50)/9)) scale()
}
PROCEDURE scale() { q = 3^((celsius - 23)/10) many = 2 }"""


def test_what_a_table_sets_beside_its_columns_is_to_be_given():
    """NEURON sets `q` and `many` where it makes the table; they would be 0 here."""
    with_table, without = (Mechanism.from_nmodl(BESIDE, use_tables=use) for use in (True, False))
    assert with_table.program.beside == ("q", "many") and without.program.beside == ()

    def end(made, **given):
        net = clhines.Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
        net.insert(made, **given)
        sim = clhines.Simulation(net, 0.025, engine="reference")
        sim.run(1)
        return sim.voltages()[0]

    with pytest.raises(InputError, match="beside: many is set where NEURON makes a TABLE"):
        end(with_table, q=0.5)
    q = 3 ** ((6.3 - 23) / 10)
    # between two rows of the table of minf, 1 mV apart, it is off by less than 1/8 of its curvature
    assert abs(end(with_table, q=q, many=2) - end(without)) < 1e-3 * abs(end(without) + 65)


def test_tables_between_their_ends():
    """A table on the host is the procedure at its places, linear between, constant outside."""
    with_table, without = mechanism("nmtable"), mechanism("nmtable", use_tables=False)
    low, high = with_table.twin("grid_curve")()
    x = low + np.arange(51) * ((high - low) / 50)
    [column] = with_table.twin("table_curve")(x)
    assert np.allclose(column, np.sin(x) + x * x / 9, rtol=1e-14, atol=1e-15)
    calls = [a.name for a in with_table.calls("advance", ["f"]) if a.direction != "out"]
    given = dict.fromkeys(calls, 0.0) | {"dt": 0.1, "m": 0.3, "curve": column[:, None]}
    given["rates"] = np.ones((78, 2))
    where = np.array([-900.0, -65.0, -64.05, -3.0, 900.0])
    out = [a.name for a in with_table.calls("advance", ["f"]) if a.direction != "in"]
    assert "f" not in out  # set in BREAKPOINT, not in advance
    call = with_table.calls("current", ["f"])
    names = [a.name for a in call if a.direction != "out"]
    values = {"gbar": 1.0, "m": 0.3, "curve": column[:, None], "v": where}
    results = with_table.twin("current", ["f"])(*(values[n] for n in names))
    at = [a.name for a in call if a.direction != "in"].index("f")
    assert np.allclose(results[at], np.interp(where / 10, x, column), rtol=1e-13)
    assert "table" not in {a.role for a in without.calls("current")}


DECIDING = """NEURON { SUFFIX deciding NONSPECIFIC_CURRENT i RANGE x, at }
PARAMETER { at = 1 }
ASSIGNED { v i x y[3] last }
INITIAL { FROM k = 0 TO 2 { y[k] = k - 1 } last = y[at] }
BREAKPOINT { LOCAL n
    x = 1
    CONDITION
    i = 1e-5*(v + 50)
}
FUNCTION looked(a) { TABLE FROM 0 TO 1 WITH 4
    looked = a
}"""


@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
@pytest.mark.parametrize(
    "condition",
    [
        "if (y[at] > 0) { x = 2 }",
        "if (at < 9 && !(y[at] <= 0)) { x = 2 }",
        "if (y[at]) { x = 2 }",
        "if (last > 0) { if (v < 0) { x = 2 } }",
        "n = 0 WHILE (n < 2) { n = n + 1 if (y[at] == 1) { x = 2 } }",
        "n = 0 WHILE (n < 2*y[at]) { n = n + 1 x = 2 }",
        "x = 1 + looked(y[at])",
        "n = 2 WHILE (n <= 2 && y[at] > 0) { n = n + 1 x = 2 }",
        "x = at if (at > 2 || at < 0) { x = y[3] }",
        "IF (1) { LOCAL w[2]\nw[1] = at IF (w[1] < 3 && w[1] >= 0) { x = at } ELSE { x = w[2] } }",
    ],
)
def test_decisions_by_what_is_outside_of_an_array_are_no_number(condition):
    m = Mechanism.from_nmodl(DECIDING.replace("CONDITION", condition))
    at = np.array([1.0, 2.0, 3.0, -1.0])
    lists = [m.calls("initial"), m.calls("current", ["x"])]
    values = dict.fromkeys((a.name for calls in lists for a in calls), np.zeros(4))
    values |= {"at": at, "v": at * 0 - 65, "looked": np.arange(5.0)[:, None] / 4}
    for block, calls in zip(("initial", "current"), lists, strict=True):
        given = [values[a.name] for a in calls if a.direction != "out"]
        outputs = ["x"] if block == "current" else []
        got = m.twin(block, outputs)(*given)
        names = [a.name for a in calls if a.direction != "in"]
        values |= {n: np.broadcast_to(x, 4) for n, x in zip(names, got, strict=True)}
    assert np.array_equal(values["x"], [1, 2, np.nan, np.nan], equal_nan=True)


def all_blocks(wanted):
    """Mechanism and block of all files of this folder, of the blocks that are wanted."""
    made = [mechanism(path.stem) for path in sorted(OWN.glob("*.mod"))]
    return [(m, block) for m in made for block in m.program.blocks if wanted(m, block)]


def assert_close(case, expected, found, size, bound):
    """300 operations, of exponentials within 3 units, on numbers as large as `size`."""
    name = case[0].name, case[1]
    assert np.array_equal(np.isnan(expected), np.isnan(found)), name
    assert np.nanmax(np.abs(expected - found) / size, initial=0) < bound, name


@pytest.mark.optimised
def test_opencl_as_numpy(fast_queue):
    """Each function compiles, and gives what its NumPy twin gives."""
    from nmodl_device import on_device

    cases = all_blocks(lambda *_: True)
    assert len(cases) > 100
    for case, compared in zip(cases, on_device(fast_queue, cases), strict=True):
        assert_close(case, *compared, 1e-11)


@pytest.mark.optimised
@pytest.mark.parametrize(("real", "bound"), [("double", 1e-11), ("float", 1e-11 * 2.0**29)])
def test_opencl_of_several_instances_as_numpy(real, bound, fast_queue):
    """The functions that CPUs call for several instances at once: tables and loops, too."""
    from nmodl_device import on_device, outputs_of

    size = {"double": 8, "float": 4}[real]
    width = min(64, limits(fast_queue.device).trusted_bytes) // size
    cases = all_blocks(
        lambda m, block: block in ("current", "advance") and in_vectors(m, block, outputs_of(m))
    )
    assert len(cases) > 30
    for case, compared in zip(cases, on_device(fast_queue, cases, real, width), strict=True):
        assert_close(case, *compared, bound)


@needs_neuron
def test_neurons_own_files():
    """What comes with NEURON is read, or refused by name."""
    folders = [wheel(), wheel().parent / "nrn" / "demo" / "release"]
    found = {p.name: rejections(p.read_text(), p.name) for f in folders for p in f.glob("*.mod")}
    assert len(found) >= 18
    refused = {name: {r.construct.split()[0] for r in rs} for name, rs in found.items() if rs}
    assert refused == {"pattern.mod": {"VERBATIM"}}


def test_a_name_with_an_underscore_is_not_another_ones_pointer():
    text = (
        "NEURON { POINT_PROCESS both NONSPECIFIC_CURRENT i }\nASSIGNED { i (nA) A_ }\n"
        "STATE { A }\nINITIAL { A = 0 A_ = 2 }\nBREAKPOINT { SOLVE steps METHOD cnexp i = A*A_ }\n"
        "DERIVATIVE steps { A' = -A*A_ }\nNET_RECEIVE(w) { A = A + w A_ = A_ + A }\n"
    )
    source = Mechanism.from_nmodl(text).functions("double")
    heads = re.findall(r"static \w+ both_(\w+)\(([^)]*)\)", source)
    assert {"initial", "receive"} <= {name for name, _ in heads}
    for name, arguments in heads:
        names = [a.split("*")[-1].split()[-1] for a in arguments.split(",") if a != "void"]
        assert len(set(names)) == len(names), (name, names)


def test_function_table_without_neuron():
    x, y = np.array([-80.0, -60.0, -20.0, 10.0]), np.array([0.1, 0.4, 0.2, 0.9])
    first, second = np.array([-70.0, -30.0]), np.array([0.0, 0.3, 0.5])
    z = np.arange(1.0, 7.0).reshape(2, 3)
    tables = {"inf": (x, y), "tau": (first, second, z), "scale": 2}
    net = Network.from_arrays([-1, 0], [0, 2], [400.0, 300.0], [0.0, 0.01], [4e-6, 3e-6])
    channel = Mechanism.from_nmodl(mod_files.FOLDER / "ext_functab.mod", function_tables=tables)
    group = net.insert(channel, at=np.arange(2))
    net.add("iclamp", [0], delay=1.0, dur=6.0, amp=0.02)
    sim = Simulation(net, 0.1, engine="reference", v_init=-75.0)
    v = sim.record("v", [0, 1])
    minf, mtau = sim.record("minf", group), sim.record("mtau", group)
    result = sim.run(10.0)
    moved = result[v][1:]
    assert np.ptp(moved) > 20
    expected = np.interp(moved, x, y)
    np.testing.assert_allclose(result[minf][1:], expected, rtol=1e-12)
    inner = [np.interp(expected, second, row) for row in z]
    share = np.clip((moved + 70) / 40, 0, 1)
    tau = (1 - share) * inner[0] + share * inner[1]
    np.testing.assert_allclose(result[mtau][1:], tau, rtol=1e-12)


def test_tables_that_are_made_of_function_tables():
    """Where rows are at the knots, interpolation in them is that of the FUNCTION_TABLE."""
    text = """
    NEURON {{ SUFFIX made NONSPECIFIC_CURRENT i RANGE m, minf }}
    ASSIGNED {{ v i minf mtau }}
    STATE {{ m }}
    FUNCTION_TABLE inf(v)
    INITIAL {{ rates(v) m = minf }}
    BREAKPOINT {{ SOLVE s METHOD cnexp  i = 1e-3*m*(v + 77) }}
    DERIVATIVE s {{ rates(v)  m' = (minf - m)/mtau }}
    PROCEDURE rates(v) {{ {} minf = inf(v)  mtau = 2 + minf }}
    """
    knots = np.linspace(-100, 0, 11)
    tables = {"inf": (knots, np.random.default_rng(5).uniform(0, 1, 11))}
    found = []
    for table in ("TABLE minf, mtau FROM -100 TO 0 WITH 10", ""):
        net = Network.from_arrays([-1, 0], [0, 2], [400.0, 300.0], [0.0, 0.01], [4e-6, 3e-6])
        net.insert(Mechanism.from_nmodl(text.format(table), function_tables=tables), [0, 1])
        net.add("iclamp", [0], delay=1.0, dur=6.0, amp=0.02)
        sim = Simulation(net, 0.1, engine="reference", v_init=-75.0)
        v = sim.record("v", [0, 1])
        found.append(sim.run(10.0)[v])
    assert np.ptp(found[0]) > 10
    np.testing.assert_allclose(*found, rtol=1e-12)


WRONG_TABLES = {
    "shapes": (([0.0, 1.0], [1.0]), "values of shape (1,); expected (2,)"),
    "descending": (([1.0, 0.0], [1.0, 2.0]), "knots that do not ascend"),
    "infinite": (([0.0, 1.0], [1.0, np.inf]), "a number that is not finite"),
    "four": (([0.0], [0.0], [0.0], [[[1.0]]]), "4 arrays; expected knots of 1 or 2"),
    "large": ((np.arange(9000.0), np.ones(9000)), "9000 values; expected 1 to 8000"),
}


@pytest.mark.parametrize("which", WRONG_TABLES)
def test_wrong_function_tables(which):
    table, message = WRONG_TABLES[which]
    with pytest.raises(InputError) as caught:
        Mechanism.from_nmodl(mod_files.FOLDER / "ext_functab.mod", function_tables={"inf": table})
    assert message in str(caught.value) and "function_tables['inf']" in str(caught.value)
