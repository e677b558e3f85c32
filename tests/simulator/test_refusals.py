"""The catalogue of refusals: its ids and their use."""

import copy
import json
import pickle
import re
import string
from pathlib import Path

import pytest

from clhines import InputError, Mechanism
from clhines.simulator.mechanisms.nmodl.reading.tree import NmodlError
from clhines.simulator.refusals import REFUSALS, id_of, refusal, sentence_of, way_out_of

ROOT = Path(__file__).parents[2]


def named(pattern):
    """Return all matches of a pattern in the package's sources."""
    table = ROOT / "clhines" / "simulator" / "refusals.py"
    texts = [p.read_text("utf-8") for p in (ROOT / "clhines").rglob("*.py") if p != table]
    return {name for text in texts for name in re.findall(pattern, text)}


def test_each_id_is_used_and_known():
    call = r'(?:refusal|refuse|reject|rejection)\((?:[^,()]+,)?\s*"(\w+\.[\w-]+)"'
    assert named(call) <= REFUSALS.keys()
    parts = "mod|neuron|network" if (ROOT / "clhines" / "neuron").exists() else "mod|network"
    ids = {name for name in REFUSALS if re.match(parts, name)} - {"network.message"}
    assert ids <= named(rf'"((?:{parts})\.[a-z0-9-]+)"')


def test_each_id_has_a_test():
    """`conftest` lets a test fail if it does not raise the ids for which the table names it."""
    table = json.loads(ROOT.joinpath("tests", "refusals.json").read_text("utf-8"))
    assert table.keys() == REFUSALS.keys()
    for test in set(table.values()):
        file, _, name = test.partition("::")
        if not ROOT.joinpath(*file.split("/")[:2]).exists():
            continue  # an absent part in the package
        assert f"def {name.partition('[')[0]}(" in ROOT.joinpath(file).read_text("utf-8"), test


@pytest.mark.parametrize("name", REFUSALS)
def test_a_sentence_is_one_line_with_named_fields(name):
    sentence, way_out = REFUSALS[name]
    assert "\n" not in sentence + way_out and sentence == sentence.strip()
    fields = [field for _, field, _, _ in string.Formatter().parse(sentence) if field is not None]
    assert all(field.isidentifier() for field in fields)


def test_a_sentence_knows_its_id_and_its_way_out():
    made = refusal("mod.solve-method", name="states", method="heun")
    assert made == "SOLVE states with METHOD heun" and id_of(made) == "mod.solve-method"
    assert way_out_of(made).startswith("use cnexp") and id_of(str(made)) == ""
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (again, id_of(again)) == (made, id_of(made))
    for error in (ValueError(made), InputError(made), pickle.loads(pickle.dumps(InputError(made)))):
        assert id_of(sentence_of(error)) == id_of(made)
    assert id_of(sentence_of(ValueError("other"))) == "network.message"


def density(rest, more=""):
    head = f"NEURON {{ SUFFIX x NONSPECIFIC_CURRENT i {more} }}\nPARAMETER {{ a = 1 }}\n"
    return f"{head}ASSIGNED {{ v i b c[3] }}\nSTATE {{ m n }}\n{rest}"


def breakpoint_(body):
    return density(f"BREAKPOINT {{ {body} i = a*v }}\n")


def initial(body):
    return density(f"INITIAL {{ {body} }}\n{STEP}")


def rate(body, method="cnexp"):
    solve = f"BREAKPOINT {{ SOLVE s METHOD {method} i = m*v }}\n"
    return density(f"{solve}DERIVATIVE s {{ {body} }}\n")


def kinetic(body):
    solve = "BREAKPOINT { SOLVE k METHOD sparse i = m*v }\n"
    return density(f"{solve}KINETIC k {{ {body} }}\n")


def event(body):
    head = "NEURON { POINT_PROCESS x NONSPECIFIC_CURRENT i }\nPARAMETER { a = 1 }\n"
    head += "ASSIGNED { v i b c[3] }\nSTATE { m }\nBREAKPOINT { i = a*v }\n"
    return f"{head}NET_RECEIVE(w) {{ {body} }}\n"


STEP = "BREAKPOINT { SOLVE s METHOD cnexp i = m*v }\nDERIVATIVE s { m' = -m }\n"
FILES = {  # ids, and files that they refuse
    "mod.array-size": density(STEP).replace("c[3]", "c[0]"),
    "mod.block-called": breakpoint_("s() ") + "DERIVATIVE s { m' = -m }\n",
    "mod.called-arguments": breakpoint_("b = exp(1, 2)"),
    "mod.called-with": breakpoint_("p(1)") + "PROCEDURE p() { b = 1 }\n",
    "mod.call-in-block": breakpoint_("net_send(1, 1)"),
    "mod.conserve-no-state": density(
        "BREAKPOINT { SOLVE k METHOD sparse i = m*v }\nKINETIC k { ~ m <-> n (a, a)\n CONSERVE b + m = 1 }\n"  # noqa: E501
    ),
    "mod.constant-set": breakpoint_("k = 2") + "CONSTANT { k = 1 }\n",
    "mod.constructor": density(STEP + "CONSTRUCTOR { b = 1 }\n"),
    "mod.derivative-has-no-rate": rate("b = 1"),
    "mod.derivative-order": rate("m'' = -m"),
    "mod.event-in-initial-of-net-receive": event("INITIAL { net_send(1, 1) }"),
    "mod.event-in-while": event("WHILE (w > 0) { net_send(1, 1) w = w - 1 }"),
    "mod.external": density("BREAKPOINT { i = a*v }\n", "EXTERNAL e"),
    "mod.for-netcons-flag": event("FOR_NETCONS(flag) { flag = 1 }"),
    "mod.for-netcons-arguments": event("FOR_NETCONS(x, y) { x = 1 }"),
    "mod.for-netcons-sets": event("FOR_NETCONS(x) { m = 1 }"),
    "mod.from-by-zero": breakpoint_("FROM k = 0 TO 3 BY 0 { b = k }"),
    "mod.from-turns": breakpoint_("FROM k = 0 TO 100000 { b = k }"),
    "mod.index-outside": breakpoint_("LOCAL q[2]\nq[5] = 1"),
    "mod.kinetic-without-states": density(
        "BREAKPOINT { SOLVE k METHOD sparse i = a*v }\nKINETIC k { b = 1 }\n"
    ),
    "mod.too-deep": breakpoint_("b = " + "(" * 500 + "a" + ")" * 500),
    "mod.net-send-arguments": event("net_send(1)"),
    "mod.neuron-block": "NEURON { SUFFIX x NONSENSE y }\n",
    "mod.no-array": kinetic("~ m[2] << (1)"),
    "mod.no-suffix": "NEURON { RANGE a }\nPARAMETER { a = 1 }\n",
    "mod.not-random": breakpoint_("b = random_uniform(a)"),
    "mod.power-method-cnexp": rate("m' = -m^2"),
    "mod.power-of-numbers": breakpoint_("b = (-8)^0.5"),
    "mod.rate-in-if": rate("if (a > 0) { m' = -m }", "derivimplicit"),
    "mod.second-block": density(STEP + "PROCEDURE s() { b = 1 }\n"),
    "mod.solve-no-block": breakpoint_("SOLVE nothing METHOD cnexp"),
    "mod.statement-in-block": breakpoint_("WATCH (v > 0) 1"),
    "mod.statement-outside-block": breakpoint_("m' = -m"),
    "mod.steadystate-derivative": initial("SOLVE s STEADYSTATE cnexp"),
    "mod.table-arguments": breakpoint_("p(v, a)")
    + "PROCEDURE p(x, y) { TABLE b FROM 0 TO 1 WITH 10 b = x }\n",
    "mod.table-holds": density(
        "BREAKPOINT { p(v) i = a*v }\nPROCEDURE p(x) { TABLE a, b FROM 0 TO 1 WITH 10 b = x }\n",
        "GLOBAL a, b",
    ),
    "mod.table-with": breakpoint_("p(v)") + "PROCEDURE p(x) { TABLE b FROM 0 TO 1 WITH 0 b = x }\n",
    "mod.table-without-names": breakpoint_("p(v)")
    + "PROCEDURE p(x) { TABLE FROM 0 TO 1 WITH 10 b = x }\n",
    "mod.text-expression": breakpoint_('b = "text"'),
    "mod.units-no-multiple": "UNITS { F = (mV) (ms) }\n" + density(STEP),
    "mod.v-artificial-cell": "NEURON { ARTIFICIAL_CELL x }\nASSIGNED { v b }\nNET_RECEIVE(w) { b = v }\n",  # noqa: E501
    "mod.variable-set": breakpoint_("celsius = 3"),
    "mod.watch-flag": event("WATCH (v > 0) a"),
    "mod.watch-ion": """
        NEURON { POINT_PROCESS a USEION ca READ cai }
        ASSIGNED { cai }
        BREAKPOINT { }
        NET_RECEIVE(w) { WATCH (cai > 1) 2 }
    """,
    "mod.watch-condition": event("WATCH (v) 1"),
    "mod.while-turns": breakpoint_("LOCAL k\nk = 0 WHILE (k < 100000) { k = k + 1 }"),
    "mod.loop-in-loop": breakpoint_(
        "LOCAL k, j\nk = v WHILE (k < 3) { k = k + 1 j = v WHILE (j < 3) { j = j + 1 } }"
    ),
    "mod.newton-states": "NEURON { SUFFIX x }\nSTATE { y[60] }\nBREAKPOINT { SOLVE s METHOD derivimplicit }\nDERIVATIVE s { FROM k = 0 TO 58 { y[k]' = -y[k]*y[k+1] } y[59]' = -y[59]*y[0] }\n",  # noqa: E501
    "mod.kinetic-states": "NEURON { SUFFIX x }\nSTATE { y[300] }\nBREAKPOINT { SOLVE k METHOD sparse }\nKINETIC k { FROM k = 0 TO 298 { ~ y[k] <-> y[k+1] (1, 1) } }\n",  # noqa: E501
    "mod.random-arguments": density(
        "BREAKPOINT { b = random_uniform(r, 1, 2, 3, 4) i = a*v }\n", "RANDOM r"
    ),
    "mod.loop-after-for-netcons": event("FOR_NETCONS(x) { x = 1 } WHILE (w > 0) { w = w - 1 }"),
    "mod.conserve-again": kinetic("~ m << (1)\nCONSERVE m = 1\nCONSERVE m = 1"),
    "mod.set-after-use": rate("m' = -m*b\nb = b + m", "derivimplicit"),
    "mod.for-netcons-order": event("FOR_NETCONS(x) { x = w }"),
    "mod.index-not-constant": kinetic("~ c[b] << (1)\n~ m << (1)"),
    "mod.kinetic-no-equation": kinetic("COMPARTMENT 0 { m }\n~ m << (1)"),
    "mod.pointer-in-two-blocks": "NEURON { SUFFIX x POINTER p }\nASSIGNED { p v }\n"
    "BREAKPOINT { p = v }\nAFTER SOLVE { p = p + 3 }\n",
    "mod.solve-of-block": breakpoint_("SOLVE d") + "DISCRETE d { m = m + 1 }\n",
    "mod.steadystate-set-after-use": kinetic("~ m <-> n (b, a)\nb = m")
    + "INITIAL { SOLVE k STEADYSTATE sparse }\n",
    "mod.singular": breakpoint_("SOLVE q") + "LINEAR q { ~ m + 0*n = 1\n~ m = 2 }\n",
    "mod.syntax": breakpoint_("LAG b BY 3"),
    "mod.too-much-text": density(STEP) + ":" * 2_000_000,
    "mod.unknown-unit": "UNITS { F = (mV@) (ms) }\n" + density(STEP),
    "mod.neuron-refuses": density(STEP + "BEFORE SOMETHING { b = 1 }\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_by(name):
    with pytest.raises(NmodlError) as error:
        Mechanism.from_nmodl(FILES[name])
    assert name in {id_of(one.construct) for one in error.value.rejections}


TABLE = "PROCEDURE p(x) { TABLE b DEPEND a FROM 0 TO 1 WITH 2 b = a*x }\n"
WITH = {  # ids, files, and their readers
    "mod.steadystate-secondorder": (
        density("BREAKPOINT { SOLVE k STEADYSTATE sparse i = m*v }\nKINETIC k { ~ m << (1) }\n"),
        {"secondorder": True},
    ),
    "mod.table-secondorder": (
        rate("p(v) m' = -b*m*m", "derivimplicit") + TABLE.replace("a*x", "dt*x"),
        {"secondorder": True},
    ),
    "mod.function-table-arguments": (
        breakpoint_("b = f(1, 2)") + "FUNCTION_TABLE f(x)\n",
        {"function_tables": {"f": ([0, 1], [2, 3])}},
    ),
    "mod.table-rows": (
        breakpoint_("p(v)") + TABLE,
        {"function_tables": {"TABLE p": ([0, 1], [2, 3])}},
    ),
    "mod.table-changes": (
        breakpoint_("a = v p(v)") + TABLE,
        {"function_tables": {"TABLE p": ([0, 1, 2], [2, 3, 4])}},
    ),
}


@pytest.mark.parametrize("name", WITH)
def test_a_file_is_refused_with_what_it_is_read_with(name):
    text, options = WITH[name]
    with pytest.raises(NmodlError) as error:
        Mechanism.from_nmodl(text, **options)
    assert {name} == {id_of(one.construct) for one in error.value.rejections}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('INCLUDE "other.inc"', "there is no such file"),
        ('INCLUDE "large.inc"', "more than 2000000 bytes"),
        ('INCLUDE "itself.mod"', "INCLUDE within"),
    ],
)
def test_files_that_are_included(text, what, tmp_path):
    tmp_path.joinpath("large.inc").write_text(":" * 2_000_001)
    path = tmp_path / "itself.mod"
    path.write_text(density(STEP) + text + "\n")
    with pytest.raises(NmodlError, match=what) as error:
        Mechanism.from_nmodl(path)
    name = "mod.include-within-others" if "within" in what else "mod.include"
    assert [id_of(one.construct) for one in error.value.rejections] == [name]


DEEP = {
    "brackets": (breakpoint_("b = " + "(" * 500 + "a" + ")" * 500), "more than 100 brackets"),
    "blocks": (breakpoint_("{" * 101 + "}" * 101), "more than 100 brackets or blocks"),
    "signs": (breakpoint_("b = " + "-" * 3000 + "a"), "too many expressions"),
    "calls": (
        breakpoint_("b = f0(1)")
        + "".join(f"FUNCTION f{k}(x) {{ f{k} = f{k + 1}(x) }}\n" for k in range(65)),
        "more than 60 calls",
    ),
}


@pytest.mark.parametrize("which", DEEP)
def test_what_is_too_deep(which):
    text, what = DEEP[which]
    with pytest.raises(NmodlError, match=f"{what}.* within each other"):
        Mechanism.from_nmodl(text)
