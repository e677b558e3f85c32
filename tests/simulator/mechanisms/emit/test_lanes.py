"""Functions for GPU lanes: quotients, helpers, table rows, terms of exponentials."""

from pathlib import Path

import pytest
from mechanism_texts import minimal

from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.mechanisms.mechanism import Mechanism, mechanism

pytestmark = pytest.mark.core
MODS = Path(__file__).parents[4] / "bench" / "mods"


def source(m, block, lanes):
    return Functions(m.compiled, "double", lanes=lanes).function(block)


@pytest.mark.parametrize(
    "expression, quotient, product",
    [
        ("1/q", "1.0 / q", "node_inverse_(q)"),
        ("t*q/(q + 2)", "t * q / (q + 2.0)", "t * q * node_inverse_(q + 2.0)"),
        ("t/(q*p)", "t / (q * p)", "t * node_inverse_(q * p)"),
        ("t*(1/q)^2 + 1", "t / (q * q) + 1.0", "t * node_inverse_(q * q) + 1.0"),
    ],
)
def test_quotients_become_products_where_there_are_inverses(expression, quotient, product):
    texts = "parameter q = 2\nparameter p = 3\ncurrent i = "
    text = Mechanism(minimal(texts + expression))
    assert f"const real i = {quotient};" in source(text, "current", Lanes(inverses=False))
    assert f"const real i = {product};" in source(text, "current", Lanes(inverses=True))


def test_helpers_are_those_of_the_template():
    """Functions call the template's helpers, which take the constants of series first."""
    text = Functions(mechanism("hh").compiled, "double", lanes=Lanes(True)).text()
    heads = [line for line in text.splitlines() if line.startswith("static")]
    assert len(heads) == 3 and all("(const node_series_ series__, " in head for head in heads)
    for name in ("exp", "bernoulli", "weight"):
        assert f"node_{name}_(series__, " in text and f"hh_{name}_(" not in text
    assert " exp(" not in text and " / " not in text


def test_rows_are_loaded_as_a_whole():
    """Load both rows right after the index; interpolate columns between them."""
    channel = Mechanism.from_nmodl(MODS / "nata.mod", use_tables=True)
    lines = [line.strip() for line in source(channel, "advance", Lanes(True)).splitlines()]
    at = next(k for k, line in enumerate(lines) if "rates__row = node_row_of_(" in line)
    for k, row in enumerate(("rates__row.row", "(rates__row.row + 1)"), 1):
        assert lines[at + k].startswith("const real4 ")
        assert f"node_load4_(rates__table + {row} * 4 + 0)" in lines[at + k]
    text = " ".join(lines)
    low, high = (lines[at + k].split()[2] for k in (1, 2))
    assert f"const real minf = node_between_(rates__row.share, {low}.s0, {high}.s0);" in text
    assert "_lookup_(" not in text and "_place_(" not in text


def test_exponentials_of_tabled_time_constants_have_few_terms():
    channel = Mechanism.from_nmodl(MODS / "nata.mod", use_tables=True)
    plain = source(channel, "advance", Lanes(True))
    few = source(channel, "advance", Lanes(True, (("rates", 2, 8),)))
    assert "node_grown_(series__, m_rate * dt)" in plain
    assert few == plain.replace("node_grown_(series__, m_rate", "node_grown_8_(series__, m_rate")


def test_constants_are_arguments():
    """A function of its own computes all terms that depend only on constant parameters and dt."""
    channel = Mechanism.from_nmodl(MODS / "sk.mod")
    printed = Functions(channel.compiled, "double", lanes=Lanes(True))
    text, constants = printed.lifted(["current", "advance"])
    head = "static void sk_constants(const node_series_ series__, const real dt, "
    assert head in text and len(constants) == 2
    assert [a.name for a in printed.calls("advance") if a.role == "constant"] == constants
    advance = text[text.index("void sk_advance(") :]
    assert "node_inverse_(dt)" in text and "node_inverse_(dt)" not in advance
