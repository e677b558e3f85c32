"""Refusals of FOR_NETCONS in events."""

import pytest
from nmodl_texts import assert_refused, text_of

REFUSED = {  # text, refused construct, words in its line
    "v set for each connection": (
        text_of("FOR_NETCONS(a) {\nv = a }").replace("INITIAL", "NET_RECEIVE(w)"),
        "v is set in FOR_NETCONS",
        "v = a",
    ),
    "v set for a connection": (
        text_of("INITIAL {\nv = w }").replace("INITIAL", "NET_RECEIVE(w)", 1),
        "v is set in INITIAL of NET_RECEIVE",
        "v = w",
    ),
    "used before FOR_NETCONS": (
        text_of("m = m + a\n FOR_NETCONS(w2, a2) { a2 = 0.9*a2 }").replace(
            "INITIAL", "NET_RECEIVE(w, a)"
        ),
        "'a' is used before FOR_NETCONS",
        "FOR_NETCONS",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])
