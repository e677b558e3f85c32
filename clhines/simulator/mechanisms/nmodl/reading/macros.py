"""C's preprocessor for VERBATIM: conditions of NEURON 9."""

from __future__ import annotations

import re

_CONDITION = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.M)
_TRUE = {  # conditions of NEURON 9 that blocks ask for
    "ifndef CORENEURON_BUILD", "ifndef NRNBBCORE", "ifndef ENABLE_CORENEURON", "if 1",
    "if !defined(CORENEURON_BUILD)", "if !NRNBBCORE", "ifdef NRN_VERSION_GTEQ",
    "ifdef NRN_VERSION_GTEQ_8_2_0", "if defined(NRN_VERSION_GTEQ_8_2_0)",
}  # fmt: skip
_FALSE = {
    "ifdef CORENEURON_BUILD", "ifdef NRNBBCORE", "ifdef ENABLE_CORENEURON", "if 0",
    "if defined(CORENEURON_BUILD)", "if NRNBBCORE", "ifndef NRN_VERSION_GTEQ",
    "ifndef NRN_VERSION_GTEQ_8_2_0", "if !defined(NRN_VERSION_GTEQ_8_2_0)",
}  # fmt: skip


class NotReadError(Exception):
    """Some C is not read."""


def statics_in(text: str) -> list[str]:
    """Return the static variables of type int that some C declares."""
    return re.findall(r"^[ \t]*static[ \t]+int[ \t]+(\w+)[ \t]*;", text, re.M)


def preprocessed(text: str) -> str:
    """Return C without preprocessor lines, and without the code that they exclude."""
    kept, result, at = [True], "", 0
    for match in _CONDITION.finditer(text):
        word = match[1]
        if kept[-1]:
            result += text[at : match.start()]
        at = match.end()
        condition = re.sub(r"\s+", " ", f"{word} {match[2]}").strip()
        if word in ("if", "ifdef", "ifndef"):
            if condition not in _TRUE | _FALSE:
                raise NotReadError
            kept.append(kept[-1] and condition in _TRUE)
        elif word == "else" and len(kept) > 1:
            kept[-1] = kept[-2] and not kept[-1]
        elif word == "endif":  # the last one's beginning may be in a block before
            kept = kept[:-1] or [True]
        elif word == "elif" or (word not in ("include", "pragma") and kept[-1]):
            raise NotReadError
    if not kept[-1]:
        raise NotReadError
    return result + text[at:]
