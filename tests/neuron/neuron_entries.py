"""Names of the installed NEURON in hoc, and the members of its classes, from its own tables."""

import ctypes
import json
import sys

from clhines.neuron.memory.raw import WORD, Readable, words_at
from clhines.neuron.memory.session import library_path

NAME, VALUE, NEXT = 0, 2, 6  # words of a symbol of hoc
OWNER, SYMBOLS = 0, 1  # words of a class


def symbols(table):
    at = words_at(table, 1)[0]
    while at:
        words = words_at(at, NEXT + 1)
        yield ctypes.string_at(words[NAME]).decode(), at
        at = words[NEXT]


def installed():
    """Return the members of each class; "" has the names outside classes."""
    from neuron import h, nrn

    section = h.Section(name="entries")  # hoc has begun
    library, readable = ctypes.CDLL(library_path()), Readable(16)
    members = {"": []}
    for name, at in symbols(WORD.in_dll(library, "hoc_built_in_symlist").value):
        value = words_at(at, VALUE + 1)[VALUE]
        if value in readable and words_at(value, 1)[OWNER] == at:
            table = words_at(value, 2)[SYMBOLS]
            members[name] = sorted({n for n, _ in symbols(table)}) if table else []
        else:
            members[""].append(name)
    for name in ("Section", "Segment"):
        members[f"nrn.{name}"] = sorted(n for n in dir(getattr(nrn, name)) if n[0] != "_")
    assert section is not None
    members[""] = sorted({*members[""]})
    return members


if __name__ == "__main__":
    json.dump(installed(), sys.stdout)
