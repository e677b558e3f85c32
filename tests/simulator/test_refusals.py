"""The catalogue of refusals: its ids and their use."""

import copy
import json
import pickle
import re
import string
from pathlib import Path

import pytest

from clhines import Mechanism
from clhines.simulator.mechanisms.nmodl.reading.tree import NmodlError
from clhines.simulator.refusals import REFUSALS, id_of, refusal, sentence_of, way_out_of

ROOT = Path(__file__).parents[2]


# ids that no test is named for yet: a new refusal comes with its test
UNTESTED = 102


def named(pattern):
    """Ids that the package names, in a pattern."""
    own = ROOT / "clhines" / "refusals.py"
    texts = [p.read_text("utf-8") for p in (ROOT / "clhines").rglob("*.py") if p != own]
    return {name for text in texts for name in re.findall(pattern, text)}


def test_each_id_is_used_and_known():
    assert named(r'refusal\(\s*"([\w.-]+)"') <= REFUSALS.keys()
    assert REFUSALS.keys() - {"network.message"} <= named(r'"((?:mod|neuron|network)\.[a-z0-9-]+)"')


def test_tests_are_named_for_ids():
    """`conftest` lets a test fail that does not raise the ids for which the table names it."""
    table = json.loads(ROOT.joinpath("tests", "refusals.json").read_text("utf-8"))
    assert table.keys() <= REFUSALS.keys()
    assert len(REFUSALS.keys() - table.keys()) <= UNTESTED
    for test in set(table.values()):
        file, _, name = test.partition("::")
        if not ROOT.joinpath(*file.split("/")[:2]).exists():
            continue  # a part above that is not there
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
    assert sentence_of(ValueError(made)) is made
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


def event(body):
    head = "NEURON { POINT_PROCESS x NONSPECIFIC_CURRENT i }\nPARAMETER { a = 1 }\n"
    head += "ASSIGNED { v i b c[3] }\nSTATE { m }\nBREAKPOINT { i = a*v }\n"
    return f"{head}NET_RECEIVE(w) {{ {body} }}\n"


STEP = "BREAKPOINT { SOLVE s METHOD cnexp i = m*v }\nDERIVATIVE s { m' = -m }\n"
FILES = {  # ids, and files that are refused by them
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
    "mod.derivative-called": breakpoint_("b = 1").replace("b = 1", "SOLVE s METHOD cnexp")
    + "DERIVATIVE s { m' = -m r() }\nPROCEDURE r() { u() }\nDERIVATIVE u { n' = -n }\n",
    "mod.derivative-has-no-rate": rate("b = 1"),
    "mod.derivative-order": rate("m'' = -m"),
    "mod.event-sent-initial-net-receive": event("INITIAL { net_send(1, 1) }"),
    "mod.event-sent-while": event("WHILE (w > 0) { net_send(1, 1) w = w - 1 }"),
    "mod.expressions-blocks-too-deep-within-each": breakpoint_("b = " + "-" * 3000 + "a"),
    "mod.external-set": density("BREAKPOINT { e = 1 i = a*v }\n", "EXTERNAL e"),
    "mod.for-netcons-argument-called-flag": event("FOR_NETCONS(flag) { flag = 1 }"),
    "mod.for-netcons-more-arguments-than-net-receive": event("FOR_NETCONS(x, y) { x = 1 }"),
    "mod.for-netcons-sets": event("FOR_NETCONS(x) { m = 1 }"),
    "mod.from-by-zero": breakpoint_("FROM k = 0 TO 3 BY 0 { b = k }"),
    "mod.from-turns": breakpoint_("FROM k = 0 TO 100000 { b = k }"),
    "mod.index-outside-local": breakpoint_("LOCAL q[2]\nq[5] = 1").replace("i = a*v", "i = a*v"),
    "mod.kinetic-without-states": density(
        "BREAKPOINT { SOLVE k METHOD sparse i = a*v }\nKINETIC k { b = 1 }\n"
    ),
    "mod.more-than-brackets-within-each-other": breakpoint_("b = " + "(" * 500 + "a" + ")" * 500),
    "mod.net-send-needs-delay-flag": event("net_send(1)"),
    "mod.neuron-block": "NEURON { SUFFIX x NONSENSE y }\n",
    "mod.no-suffix-point-process-artificial-cell": "NEURON { RANGE a }\nPARAMETER { a = 1 }\n",
    "mod.not-random": breakpoint_("b = random_uniform(a)"),
    "mod.power-method-cnexp": rate("m' = -m^2"),
    "mod.power-of-numbers": breakpoint_("b = (-8)^0.5"),
    "mod.rate-in-if": rate("if (a > 0) { m' = -m }", "derivimplicit"),
    "mod.second-block-of-name": density(STEP + "PROCEDURE s() { b = 1 }\n"),
    "mod.solve-no-block": breakpoint_("SOLVE nothing METHOD cnexp"),
    "mod.statement-in-block": breakpoint_("WATCH (v > 0) 1"),
    "mod.statement-outside-block": breakpoint_("m' = -m"),
    "mod.steadystate-derivative": initial("SOLVE s STEADYSTATE cnexp"),
    "mod.table-arguments": breakpoint_("p(v, a)")
    + "PROCEDURE p(x, y) { TABLE b FROM 0 TO 1 WITH 10 b = x }\n",
    "mod.table-with": breakpoint_("p(v)") + "PROCEDURE p(x) { TABLE b FROM 0 TO 1 WITH 0 b = x }\n",
    "mod.table-without-names": breakpoint_("p(v)")
    + "PROCEDURE p(x) { TABLE FROM 0 TO 1 WITH 10 b = x }\n",
    "mod.text-expression": breakpoint_('b = "text"'),
    "mod.threshold-mode": breakpoint_('b = threshold(a, 1, "other")'),
    "mod.units-no-multiple": "UNITS { F = (mV) (ms) }\n" + density(STEP),
    "mod.v-artificial-cell": "NEURON { ARTIFICIAL_CELL x }\nASSIGNED { v b }\nNET_RECEIVE(w) { b = v }\n",  # noqa: E501
    "mod.variable-set": breakpoint_("celsius = 3"),
    "mod.watch-flag-not-constant": event("WATCH (v > 0) a"),
    "mod.watch-ion-without-breakpoint": """
        NEURON { POINT_PROCESS a USEION ca READ cai }
        ASSIGNED { cai }
        NET_RECEIVE(w) { WATCH (cai > 1) 2 }
    """,
    "mod.watch-own-current": """
        NEURON { POINT_PROCESS a USEION ca WRITE ica }
        ASSIGNED { ica }
        BREAKPOINT { ica = 1 }
        NET_RECEIVE(w) { WATCH (ica > 1) 2 }
    """,
    "mod.watch-what-no-comparison": event("WATCH (v) 1"),
    "mod.while-more-than-turns": breakpoint_("LOCAL k\nk = 0 WHILE (k < 100000) { k = k + 1 }"),
    "mod.while-within-another-iteration": breakpoint_(
        "LOCAL k, j\nk = v WHILE (k < 3) { k = k + 1 j = v WHILE (j < 3) { j = j + 1 } }"
    ),
    "mod.newton-iteration-states": "NEURON { SUFFIX x }\nSTATE { y[60] }\nBREAKPOINT { SOLVE s METHOD derivimplicit }\nDERIVATIVE s { FROM k = 0 TO 58 { y[k]' = -y[k]*y[k+1] } y[59]' = -y[59]*y[0] }\n",  # noqa: E501
    "mod.kinetic-states": "NEURON { SUFFIX x }\nSTATE { y[300] }\nBREAKPOINT { SOLVE k METHOD sparse }\nKINETIC k { FROM k = 0 TO 298 { ~ y[k] <-> y[k+1] (1, 1) } }\n",  # noqa: E501
    "mod.random-arguments": density(
        "BREAKPOINT { b = random_uniform(r, 1, 2, 3, 4) i = a*v }\n", "RANDOM r"
    ),
    "mod.while-from-uses-what-for-netcons-has": event(
        "FOR_NETCONS(x) { x = 1 } WHILE (w > 0) { w = w - 1 }"
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_by(name):
    with pytest.raises(NmodlError) as found:
        Mechanism.from_nmodl(FILES[name])
    assert name in {id_of(one.construct) for one in found.value.rejections}
