"""Changes to a parsed file that an importer needs: NEURON's memory has more than the text."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.nmodl.reading.tree import GIVEN, Declaration, File


@dataclass(frozen=True)
class FileChanges:
    """Changes of a parsed .mod file.

    Attributes
    ----------
    statics : tuple of (str, int)
        Values of static variables of VERBATIM.
    pointing : tuple of str
        RANGE variables that become POINTERs.
    unpointed : tuple of str
        POINTERs that become variables of the file.
    streamless : tuple of str
        POINTERs that have no random stream in some instances. A new parameter of each instance
        tells whether it has one.
    ranged : tuple of str
        Variables to add to RANGE.
    shows_currents : bool
        Whether to add all currents to RANGE.
    """

    statics: tuple[tuple[str, int], ...] = ()
    pointing: tuple[str, ...] = ()
    unpointed: tuple[str, ...] = ()
    streamless: tuple[str, ...] = ()
    ranged: tuple[str, ...] = ()
    shows_currents: bool = False


def changed(file: File, changes: FileChanges) -> File:
    """Apply changes to a file, and return it; InputError if a new pointer is in no RANGE."""
    for name in changes.unpointed:
        file.pointers.pop(name, None)
    ranged = [*changes.ranged]
    ranged += [*file.nonspecific, *file.electrode] if changes.shows_currents else []
    for name in changes.streamless:
        flag = f"{name}_{GIVEN}"
        file.variables[flag] = Declaration(flag, "parameter", file.line, value=Fraction(0))
        ranged.append(flag)
    file.range |= {name: file.line for name in ranged if name not in file.range}
    for name in changes.pointing:
        if name in file.pointers:
            continue
        if name not in file.range:
            raise InputError(f"{name} is in no RANGE of the text")
        file.pointers[name] = file.range.pop(name)
        if name not in file.variables or file.variables[name].sort == "parameter":
            file.variables.pop(name, None)
            file.variables[name] = Declaration(name, "assigned", file.line)
    return file
