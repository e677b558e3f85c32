"""C's preprocessor for VERBATIM: conditions as in NEURON 9, and macros with one argument."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONDITION = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.M)
_TRUE = {  # conditions that NEURON 9 fulfils
    "ifndef CORENEURON_BUILD", "ifndef NRNBBCORE", "ifndef ENABLE_CORENEURON", "if 1",
    "if !defined(CORENEURON_BUILD)", "if !NRNBBCORE", "ifdef NRN_VERSION_GTEQ",
    "ifdef NRN_VERSION_GTEQ_8_2_0", "if defined(NRN_VERSION_GTEQ_8_2_0)",
}  # fmt: skip
_FALSE = {
    "ifdef CORENEURON_BUILD", "ifdef NRNBBCORE", "ifdef ENABLE_CORENEURON", "if 0",
    "if defined(CORENEURON_BUILD)", "if NRNBBCORE", "ifndef NRN_VERSION_GTEQ",
    "ifndef NRN_VERSION_GTEQ_8_2_0", "if !defined(NRN_VERSION_GTEQ_8_2_0)",
}  # fmt: skip
_MACRO = re.compile(r"(\w+)\((\w+)\)[ \t]+(.*)")  # with one argument


class NotReadError(Exception):
    """C that cannot be translated."""


def statics_in(text: str) -> list[str]:
    return re.findall(r"^[ \t]*static[ \t]+int[ \t]+(\w+)[ \t]*;", text, re.M)


def macros_in(text: str) -> dict[str, tuple[str, str]]:
    """Return the one-argument macros that C defines: argument and body by name."""
    kept, macros = [True], dict[str, tuple[str, str]]()
    for line in _CONDITION.finditer(text):
        word, condition = line[1], re.sub(r"\s+", " ", f"{line[1]} {line[2]}").strip()
        if word in ("if", "ifdef", "ifndef"):
            kept.append(kept[-1] and condition in _TRUE)
            if condition not in _TRUE | _FALSE:
                return {}
        elif word == "else":
            kept[-1] = all(kept[:-1]) and not kept[-1]
        elif word == "endif":
            kept = kept[:-1] or [True]
        elif word == "define" and kept[-1] and (macro := _MACRO.fullmatch(line[2])):
            macros[macro[1]] = macro[2], macro[3]
    return macros


def expanded(text: str, defined: Mapping[str, tuple[str, str]]) -> str:
    """Expand one-argument macros in C; `defined` is the result of `macros_in`."""
    for name, (argument, becomes) in defined.items():
        while begin := re.search(rf"\b{name}\s*\(", text):
            end, depth = begin.end(), 1
            while depth and end < len(text):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            argument_text = text[begin.end() : end - 1]
            if depth or re.search(rf"\b{name}\b", argument_text + becomes):
                raise NotReadError
            new = re.sub(rf"\b{argument}\b", argument_text.replace("\\", r"\\"), becomes)
            text = f"{text[: begin.start()]}{new}{text[end:]}"
    return text


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
        elif word == "endif":  # its #if may be in the VERBATIM block before
            kept = kept[:-1] or [True]
        elif word == "elif" or (word not in ("include", "pragma") and kept[-1]):
            raise NotReadError
    if not kept[-1]:
        raise NotReadError
    return result + text[at:]
