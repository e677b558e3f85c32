"""Mechanisms that set e_extracellular through a POINTER before each step, as xtra.mod does.

Such a potential depends only on parameters and the time. A segment's potential drives currents into
several nodes. So each of these nodes gets a copy of the instance, which computes the potential
itself. Variables that depend on a POINTER to i_membrane are set by NEURON in its last step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clhines.neuron.convert import Rejected, converted, reject
from clhines.neuron.read.catalogue import OUTSIDE, CatalogueEntry, without_comments
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.places import Variable
from clhines.simulator.mechanisms import Mechanism, Quantity
from clhines.simulator.mechanisms.nmodl import File, Refused, Statement, all_of, parse, set_by, uses
from clhines.simulator.refusals import Sentence, refusal

POTENTIAL = "e_extracellular"
_MEMBRANE = "i_membrane"
CURRENT, FACTOR = "clhines_drives", "clhines_g"  # the copies' variables
_BEFORE = "BEFORE BREAKPOINT"  # a BREAKPOINT without currents runs after the step
_KNOWN = {_BEFORE, "BREAKPOINT", "INITIAL", "BEFORE INITIAL", "AFTER INITIAL", "AFTER SOLVE"}


@dataclass(frozen=True, eq=False)
class Driver:
    """A mechanism whose instances set potentials of extracellular segments."""

    copy: Mechanism  # an electrode with current `CURRENT` (nA) = `FACTOR` (µS) times potential
    of: np.ndarray  # (n,) int64: each instance's instance of extracellular

    @property
    def parameters(self) -> list[Quantity]:
        """The mechanism's parameters: all parameters of the electrode `copy` except `FACTOR`."""
        return [q for q in self.copy.program.parameters if q.name != FACTOR]

    def refused(self, name: str, mechanism: Mechanism) -> list[Rejected]:
        """Return a rejection for each dependence of the potential beyond parameters and time."""
        program, parameters = self.copy.program, {q.name for q in mechanism.program.parameters}
        names = {(q.public or q.name) for q in program.states}
        names |= {q.public or q.name for q in self.parameters if q.name not in parameters}
        names |= {*program.built_in} - {"celsius"} | {*program.pointers}
        names |= {table.name for table in program.tables}
        names |= {"v"} & {a.role for arguments in program.blocks.values() for a in arguments}
        what = f"a POINTER to {POTENTIAL}, which depends on"
        return [reject(name, "neuron.potential-depends-on", what=what, one=one) for one in names]


@dataclass(frozen=True, eq=False)
class OutsidePointers:
    """A mechanism's POINTERs to variables of extracellular."""

    every: tuple[str, ...]
    sets: str  # the POINTER to e_extracellular; empty if there is none
    reads: str  # the POINTER to i_membrane; empty if there is none
    of: np.ndarray  # (n,) int64: the extracellular instances that `sets` points to
    unknown: frozenset[str]  # variables that depend on `reads`
    refused: Sentence | None  # why the POINTERs are not supported


def pointing_of(
    instances: Instances, variable: Callable[[int, str], Variable | None]
) -> OutsidePointers | None:
    """Return a mechanism's POINTERs to variables of extracellular; None if it has none.

    ``variable(k, pointer)`` returns the variable to which a POINTER of instance k points.
    """
    try:
        file = parse(instances.entry.text, instances.entry.file)
    except Refused:
        return None  # reported when the text is converted
    pointer_to, every = dict[str, str](), list[str]()
    what: Sentence | None = None
    of = np.zeros(0, np.int64)
    for pointer in file.pointers:
        targets = [variable(k, pointer) for k in range(len(instances))]
        names = [*dict.fromkeys((v.owner, v.name) if v is not None else ("", "") for v in targets)]
        name = next((name for owner, name in names if owner == OUTSIDE), "")
        if not name:
            continue
        if len(names) > 1 or name in pointer_to or name not in (POTENTIAL, _MEMBRANE):
            also = " and to others" * (len(names) > 1)
            words = {"pointer": pointer, "name": name, "also": also}
            what = what or refusal("neuron.pointer-to-extracellular", **words)
        every.append(pointer)
        pointer_to[name] = pointer
        if name == POTENTIAL:
            of = np.array([v.number for v in targets if v is not None], np.int64)
    if not every:
        return None
    sets, reads = pointer_to.get(POTENTIAL, ""), pointer_to.get(_MEMBRANE, "")
    unknown = frozenset(_depending_on(file, reads) if reads else ())
    what = what or _refused(file, sets, reads, of)
    return OutsidePointers(tuple(every), sets, reads, of, unknown, what)


def _refused(file: File, sets: str, reads: str, of: np.ndarray) -> Sentence | None:
    """Return why a mechanism's POINTERs are not supported; None if they are.

    `sets` is the POINTER to e_extracellular, `of` has the instances of extracellular behind it, and
    `reads` is the POINTER to i_membrane. `sets` or `reads` may be empty.
    """
    if _does_more(file):
        which = f"POINTER {sets or reads} to {POTENTIAL if sets else _MEMBRANE}"
        return refusal("neuron.potential-of-channel", which=which)
    if sets and (len({*of.tolist()}) < len(of)):
        return refusal("neuron.potential-of-several-instances", sets=sets)
    if reads and sets in _depending_on(file, reads):
        return refusal("neuron.potential-depends-on-i-membrane", sets=sets)
    if sets and not (_BEFORE in file.main and sets in set_by(file.main[_BEFORE].body, file.blocks)):
        return refusal("neuron.potential-not-set-before-step", sets=sets)
    return None


def _does_more(file: File) -> bool:
    """Whether a mechanism does more than set its variables and its POINTERs' targets."""
    kinds = {block.sort for block in file.blocks.values()} - {"FUNCTION", "PROCEDURE"}
    if kinds or {*file.main} - _KNOWN:
        return True
    bodies = (block.body for block in (*file.main.values(), *file.blocks.values()))
    if any(all_of(body, "solve") for body in bodies):
        return True
    parts = file.ions, file.nonspecific, file.electrode, file.random, file.verbatim
    return any(map(bool, parts))


def _depending_on(file: File, name: str) -> set[str]:
    tainted, before = {name}, set[str]()
    bodies = [b.body for b in (*file.main.values(), *file.blocks.values())]
    while tainted != before:
        before = set(tainted)
        for variable in before:
            for statement in (s for body in bodies for s in _using(body, variable)):
                tainted |= set_by([statement], file.blocks)
            tainted |= {n for n, b in file.blocks.items() if uses(b.body, variable)}
    return tainted


def _using(body: Sequence[Statement], name: str) -> Iterator[Statement]:
    for statement in body:
        if uses([replace(statement, names=statement.names[1:], blocks=[])], name):
            yield statement
        for inner in statement.blocks:
            yield from _using(inner, name)


def copy_of(entry: CatalogueEntry, pointing: OutsidePointers) -> Mechanism:
    """Convert `entry` to an electrode whose current is `FACTOR` times the entry's potential."""
    file, code = parse(entry.text, entry.file), without_comments(entry.text)
    code = re.sub(r"(?m)^\s*TITLE\b.*$", "", code)
    kept, calls = list[str](), list[str]()
    for head, body in _parts(code):
        words = re.search(r"\b((BEFORE|AFTER)\s+)?[A-Z_]+\s*$", head)
        main = " ".join(words[0].split()) if words else ""
        if words is None or main not in {*_KNOWN, "NEURON"}:
            kept.append(f"{head} {body}")
            continue
        kept.append(head[: words.start()])
        if main == _BEFORE:
            calls.append(f"clhines_{len(calls)}()")
            kept.append(f"PROCEDURE {calls[-1]} {body}")
    ranged = [n for n in (*file.range, *file.globals) if n not in pointing.unknown]
    text = (
        f"NEURON {{ POINT_PROCESS {entry.name}_drives RANGE "
        f"{', '.join([*ranged, FACTOR, CURRENT])}\n ELECTRODE_CURRENT {CURRENT} }}\n"
        + "\n".join(kept)
        + f"\nPARAMETER {{ {FACTOR} = 0 (uS) }}\nASSIGNED {{ {CURRENT} (nA) }}\n"
        + f"BREAKPOINT {{ {' '.join(calls)} {CURRENT} = {FACTOR}*{pointing.sets} }}\n"
    )
    return converted(replace(entry, text=text, kind="point"))


def _parts(code: str) -> Iterator[tuple[str, str]]:
    """Yield (text before a block, the block in braces) for each outermost block of a .mod text."""
    depth, begin, opened = 0, 0, 0
    for bracket in re.finditer(r"[{}]", code):
        depth += 1 if bracket[0] == "{" else -1
        if bracket[0] == "{" and depth == 1:
            opened = bracket.start()
        elif depth == 0:
            yield code[begin:opened], code[opened : bracket.end()]
            begin = bracket.end()
