"""Refusals of KINETIC and LONGITUDINAL_DIFFUSION."""

import pytest
from nmodl_texts import TWO_STATES, assert_refused, diffusing

REFUSED = {  # text, refused construct, words in its line
    **{
        f"rate {what}": (
            TWO_STATES + "KINETIC k { ~ a <-> b (" + rates + ") }",
            "a rate that is a sum or a comparison, of which NEURON uses only the last part",
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
    "two schemes": (
        TWO_STATES + "KINETIC k { ~ a <-> b (1, 1) }\nKINETIC other { ~ a << (1) }",
        "KINETIC k, in a file with two",
        "KINETIC k",
    ),
    **{
        f"diffusion {what}": (
            *(diffusing(*given), message.replace("{D}", "LONGITUDINAL_DIFFUSION")),
            "LONGITUDINAL_DIFFUSION",
        )
        for what, message, *given in (
            ("alone", "of 'm', which no COMPARTMENT before it has", "{D} 1 {m}"),
            ("before", "which no COMPARTMENT before it has", "{D} 1 {m}\nCOMPARTMENT 1 {m}"),
            ("of no state", "of 'x', which is not a STATE", "COMPARTMENT 1 {x}\n{D} 1 {x}"),
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
                *("that sets", "or COMPARTMENT calls a function that sets variables"),
                *("COMPARTMENT 1 {m}\n{D} f(2) {m}", "RANGE x", "FUNCTION f(a) { x = a f = a }"),
            ),
        )
    },
    "diffusion of points": (
        diffusing("COMPARTMENT 1 {m}\n{D} 1 {m}").replace("SUFFIX", "POINT_PROCESS"),
        "LONGITUDINAL_DIFFUSION in a point process",
        "LONGITUDINAL_DIFFUSION",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])
