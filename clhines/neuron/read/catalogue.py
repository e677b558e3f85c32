"""NEURON's catalogue of mechanisms: names, NMODL texts, and the variables that hoc shows."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace

from clhines.neuron.memory.channels import Channel, channels_of, read_channel
from clhines.neuron.memory.raw import ref
from clhines.neuron.memory.session import Hoc, Segment
from clhines.neuron.memory.symbols import Library
from clhines.simulator.mechanisms.nmodl import FileChanges

_COMMENTS = re.compile(r"COMMENT.*?ENDCOMMENT|/\*.*?\*/|(?://|:)[^\n]*", re.DOTALL)
GLOBAL, PARAMETER, ASSIGNED, STATE = -1, 1, 2, 3  # MechanismStandard's arguments
_DECLARED = 1  # name_declared() for range variables
STRUCTURE = ("morphology", "capacitance")  # in every section, read with the tree
OUTSIDE = "extracellular"  # has no NMODL; see `extracellular`


def plain(text: str) -> str:
    return re.sub(r"\s+", "", without_comments(text))


def without_comments(text: str) -> str:
    return _COMMENTS.sub("", text)


@dataclass(frozen=True, eq=False)
class CatalogueEntry:
    name: str
    number: int
    kind: str  # ``density``, ``point``, ``artificial`` or ``ion``
    text: str  # NMODL; empty if NEURON has none
    file: str
    ranges: dict[str, int]  # RANGE variables' lengths by name without suffix, 1 for scalars
    states: tuple[str, ...]
    globals_: dict[str, int]  # GLOBAL variables' lengths
    channel: Channel | None = None  # if hoc has built it (KSChan)
    changes: FileChanges = field(default_factory=FileChanges)


class Catalogue:
    def __init__(self, h: Hoc) -> None:
        self._h, self._entries = h, dict[str, CatalogueEntry]()
        self._numbers: dict[str, tuple[int, int]] = {}
        self.of_number: dict[int, str] = {}  # density mechanisms and ions
        self._types = [h.MechanismType(0), h.MechanismType(1)]
        self._built = channels_of(h)
        name = _text(h)
        for points, types in enumerate(self._types):
            for k in range(int(types.count())):
                types.select(k)
                types.selected(name)
                self._numbers[name[0]] = (points, k)
                if not points:
                    self.of_number[int(types.internal_type())] = name[0]

    def points(self) -> list[str]:
        """Return the names of all point processes and artificial cells."""
        return [n for n, (is_point, _) in self._numbers.items() if is_point]

    def has_artificial(self) -> bool:
        cells = (n for n, (p, k) in self._numbers.items() if p and self._types[1].is_artificial(k))
        return any(len(self._h.List(n)) for n in cells)

    def without_text(self) -> list[str]:
        """Return point processes without NMODL text, as hoc's `make_pointprocess` makes them."""
        return [n for n in self.points() if n not in self._built and not self[n].text]

    def hiding(self, segment: Segment) -> list[tuple[str, str]]:
        """Return (point process, variable) for variables whose names hide segments' variables."""
        return [
            (name, variable)
            for name in self.without_text()
            for variable in self[name].ranges
            if hasattr(type(segment), variable) or self._h.name_declared(variable) == _DECLARED
        ]

    def with_channel(self, entry: CatalogueEntry, memory: Library) -> CatalogueEntry:
        """Return the entry, with NMODL text if hoc has built its channel (KSChan)."""
        if entry.name not in self._built:
            return entry
        channel = read_channel(self._h, memory, entry.name)
        ranges = dict.fromkeys(channel.variables, 1) or entry.ranges
        return replace(entry, text=channel.text, channel=channel, ranges=ranges)

    def __getitem__(self, name: str) -> CatalogueEntry:
        if name not in self._entries:
            self._entries[name] = self._read(name)
        return self._entries[name]

    def _read(self, name: str) -> CatalogueEntry:
        points, k = self._numbers[name]
        types = self._types[points]
        types.select(k)
        if types.is_ion():
            kind = "ion"
        elif points:
            kind = "artificial" if types.is_artificial(k) else "point"
        else:
            kind = "density"
        suffix = "" if points else f"_{name}"
        ranges = {
            n: size
            for what in (PARAMETER, ASSIGNED, STATE)
            for n, size in self._variables(name, what, suffix).items()
        }
        states = tuple(self._variables(name, STATE, suffix))
        globals_ = self._variables(name, GLOBAL, f"_{name}") if kind != "ion" else {}
        number, text, file = int(types.internal_type()), types.code() or "", types.file() or ""
        return CatalogueEntry(name, number, kind, text, file, ranges, states, globals_)

    def _variables(self, name: str, what: int, suffix: str) -> dict[str, int]:
        h, lengths = self._h, dict[str, int]()
        variable = _text(h)
        standard = h.MechanismStandard(name, what)
        for k in range(int(standard.count())):
            lengths[variable[0].removesuffix(suffix)] = int(standard.name(variable, k))
        return lengths


def _text(h: Hoc) -> Hoc:
    """Return a reference to a new hoc string, even if a hoc variable hides `h.ref`."""
    h("strdef clhines_text_")
    return ref(h, "clhines_text_")


def digest_of_texts(h: Hoc) -> str:
    sha256 = hashlib.sha256()
    for types in (h.MechanismType(0), h.MechanismType(1)):
        for number in range(int(types.count())):
            types.select(number)
            sha256.update(str(types.code()).encode())
    return sha256.hexdigest()[:16]
