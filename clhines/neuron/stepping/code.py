"""Code of hoc's procedures as the interpreter has it: words, symbols, and the objects of variables.

hoc keeps no text. A procedure is a list of words: addresses of functions of NEURON's library, each
with words that belong to it, and zeros that end a part, as the body of a loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.raw import words_at
from clhines.neuron.memory.session import Hoc

_HALF = 0xFFFF
_PROCEDURES = {"proc": "() {}", "func": "() { return 0 }"}
_KEPT = {  # of which hoc keeps the examples
    "iterator": "() { iterator_statement }", "obfunc": "() { return clhines_object_ }",
}  # fmt: skip
_LISTS = "hoc_built_in_symlist", "hoc_top_level_symlist"
_EXTERNAL = 2  # a symbol of a template that stands for one of the top level


class Symbol(NamedTuple):
    """A name of hoc by the address of its symbol; `value` is what it stands for."""

    address: int
    name: str
    kind: int
    subtype: int
    value: int
    array: int  # address of the description of an array; 0 of others


class Template(NamedTuple):
    """A class: `symbols` is the address of its names, `size` how many words an object has."""

    name: str
    symbols: int
    size: int
    is_point: bool


_OwnedCode = tuple[str, list[int]]  # the class of a procedure, and its words


class Reached(NamedTuple):
    """Names in some code, of hoc's operations, too, as far as these are asked for.

    `functions` are those among them of NEURON, its mechanisms and its classes, `procedures` all of
    hoc: a class, "" of the top level, and a name.
    """

    names: frozenset[str]
    functions: frozenset[tuple[str, str]]
    procedures: frozenset[tuple[str, str]]


class HocCode:
    """Reads procedures; OSError where hoc is not as expected."""

    def __init__(self, h: Hoc, memory: Objects, operations: Iterable[str]) -> None:
        self._h, self._memory = h, memory
        self.operations = {
            ctypes.cast(memory.symbol(f"_Z{len(n)}{n}v"), ctypes.c_void_p).value or 0: n
            for n in operations
        }

    @cached_property
    def kinds(self) -> dict[str, int]:
        """Return hoc's numbers for kinds of symbols, from symbols that are known."""
        known = {"built in": "fadvance", "variable": "t", "range": "v"}
        known |= {"string": "clhines_text_", "object": "clhines_object_"}
        self._h("strdef clhines_text_")
        self._h("objref clhines_object_")
        found = {kind: self.known(name).kind for kind, name in known.items()}
        for kind, text in _KEPT.items():
            self._h(f"{kind} clhines_{kind}_{text}")
            found[kind] = self.known(f"clhines_{kind}_").kind
        for kind, text in _PROCEDURES.items():
            name = f"clhines_example_{kind}"
            with self._memory.example(name, f"{kind} {name}{text}"):
                found[kind] = self.top(name).kind
        found["template"] = self.known("Vector").kind
        self._check()
        return found

    def _check(self) -> None:
        """Look for an object that is known, as others will be."""
        vector = self._h.clhines_object_ = self._h.Vector(1)
        objects = [*self.objects_in(self.top("clhines_object_"), None)]
        self._h.clhines_object_ = None
        if objects != [self._memory.object_of(vector)]:
            raise OSError("an objref is not as expected")
        template = self.template_of(objects[0])
        if template.name != "Vector" or self.member(template, "append").name != "append":
            raise OSError("a class is not as expected")

    @cached_property
    def subtypes(self) -> dict[str, int]:
        """Return the same of subtypes of variables; one of hoc's own has 0."""
        known = {"number": "t", "integer": "stoprun", "section": "nseg"}
        return {kind: self.known(name).subtype for kind, name in known.items()}

    def known(self, name: str) -> Symbol:
        """Return a symbol of a name, built in or not."""
        return self.symbol(self._memory.known_symbol(name))

    def top(self, name: str) -> Symbol:
        return self.symbol(self._memory.symbol_in(name))

    def symbol(self, address: int) -> Symbol:
        """Return the symbol at an address, or that for which it stands."""
        words = words_at(address, 5)
        if words[1] >> 32 & _HALF == _EXTERNAL:
            words = words_at(address := words[2], 5)
        name = ctypes.string_at(words[0]).decode("utf-8", "replace")
        return Symbol(address, name, words[1] & _HALF, words[1] >> 16 & _HALF, words[2], words[4])

    def words(self, procedure: Symbol) -> list[int]:
        begin, size = words_at(procedure.value, 2)
        return words_at(begin, size)

    def locals_of(self, procedure: Symbol) -> set[int]:
        """Return addresses of symbols that a procedure has for itself."""
        return {*self._memory.own_symbols(procedure.value)}

    def reached(self, callers: Iterable[str]) -> Reached:
        """Return what code may use that is called by these names, or that hoc executes now.

        A name in it stands for all procedures of this name, of any class.
        """
        known, bodies, functions = self._of_all()
        procedures = frozenset((owner, n) for n, some in bodies.items() for owner, _ in some)
        codes, todo = [np.array(self._executed(), np.uint64)], {*callers, "unref"}
        names, places = set[str](), np.array([*known], np.uint64)
        while todo or codes:
            codes += [np.array(body, np.uint64) for n in todo for _, body in bodies.pop(n, ())]
            if not codes:
                break
            words = np.unique(np.concatenate(codes))
            found = {known[at] for at in places[np.isin(places, words)].tolist()}
            used = {n for at, n in self.operations.items() if (words == np.uint64(at)).any()}
            names |= found | used
            makes = any(name.startswith("hoc_newobj") for name in used)
            codes, todo = [], found | ({"init"} if makes else set())
        own = frozenset(f for f in functions if f[1] in names)
        return Reached(frozenset(names), own, procedures)

    def _of_all(self) -> tuple[dict[int, str], dict[str, list[_OwnedCode]], set[tuple[str, str]]]:
        """Return names by addresses of symbols, code by name, and NEURON's functions."""
        kinds, names, bodies = self.kinds, dict[int, str](), dict[str, list[_OwnedCode]]()
        functions, lists = set[tuple[str, str]](), {self._memory.variable(n): "" for n in _LISTS}
        procedures = {kinds[kind] for kind in (*_PROCEDURES, *_KEPT)}
        seen = {*lists}  # a template may stand in its own list
        while lists:
            symbols, owner = lists.popitem()
            for at, words in self._listed(symbols):
                name = names[at] = ctypes.string_at(words[0]).decode("utf-8", "replace")
                kind = words[1] & _HALF
                body = words_at(*words_at(words[2], 2)) if kind in procedures and words[2] else []
                if body:
                    bodies.setdefault(name, []).append((owner, body))
                elif kind in procedures or kind == kinds["built in"]:
                    functions.add((owner, name))
                elif kind == kinds["template"] and words[2]:
                    inside = words_at(words[2], 2)[1]
                    if inside not in seen:
                        seen.add(inside)
                        lists[inside] = name
        return names, bodies, functions

    def _executed(self) -> list[int]:
        begin, end = (self._memory.variable(name) for name in ("hoc_prog", "hoc_progp"))
        return words_at(begin, max(end - begin, 0) // 8)

    @staticmethod
    def _listed(symbols: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the addresses and words of the symbols in a list."""
        at = words_at(symbols, 1)[0] if symbols else 0
        while at:
            words = words_at(at, 7)
            yield at, words
            at = words[-1]

    # -- objects -------------------------------------------------------------------------------

    def template_of(self, thing: int) -> Template:
        """Return the class of an object, by its address."""
        symbol, symbols, sizes = words_at(words_at(thing, 3)[2], 3)
        is_point = bool(sizes >> 32)
        return Template(self.symbol(symbol).name, symbols, sizes & 0xFFFFFFFF, is_point)

    def member(self, template: Template, name: str) -> Symbol:
        return self.symbol(self._memory.symbol_in(name, template.symbols))

    def has_member(self, thing: int, name: str) -> bool:
        """Whether the class of an object has a member of this name."""
        try:
            return bool(self.member(self.template_of(thing), name))
        except OSError:
            return False

    def has(self, template: Template, symbol: Symbol) -> bool:
        """Whether a symbol is of a class, and stands for no other."""
        try:
            return self._memory.symbol_in(symbol.name, template.symbols) == symbol.address
        except OSError:
            return False

    @staticmethod
    def inside_of(thing: int) -> int:
        """Return the address of the C++ object, or of the variables, of an object."""
        return words_at(thing, 2)[1]

    def instances(self, name: str) -> list[int]:
        """Return addresses of all objects of a class."""
        return [self._memory.object_of(one) for one in self._h.List(name)]

    def in_list(self, thing: int) -> list[int] | None:
        """Return addresses of the objects in a List of hoc; None where some are Python's."""
        for one in self._h.List("List"):
            if self._memory.object_of(one) == thing:
                every = [one.o(k) for k in range(int(one.count()))]
                if all(isinstance(x, type(self._h)) for x in every):
                    return [self._memory.object_of(x) for x in every]
        return None

    def objects_in(self, symbol: Symbol, owners: Iterable[int] | None) -> Iterator[int]:
        """Yield addresses of objects that an objref, of some objects or of the top level, has."""
        spaces = [self._memory.variable("hoc_top_level_data")]
        if owners is not None:
            spaces = [words_at(owner, 2)[1] for owner in owners]
        at = symbol.value & 0xFFFFFFFF
        for space in spaces:
            first, array = words_at(space + 8 * at, 2)
            count = prod(_lengths(array)) if symbol.array else 1
            yield from (one for one in words_at(first, count) if one)


def _lengths(array: int) -> list[int]:
    """Return the lengths of an array: behind a word come how many, a number, and these."""
    half = ctypes.c_uint32.from_address
    return [half(array + 16 + 4 * k).value for k in range(half(array + 8).value)]
