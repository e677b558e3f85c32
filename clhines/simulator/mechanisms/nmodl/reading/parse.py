"""Parse NMODL files: blocks, declarations and UNITS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from clhines.simulator.common.units import LONG_PREFIXES, PREFIXES, UNITS, Scaled
from clhines.simulator.mechanisms.nmodl.reading.changes import FileChanges, changed
from clhines.simulator.mechanisms.nmodl.reading.checks import check
from clhines.simulator.mechanisms.nmodl.reading.cursor import Cursor
from clhines.simulator.mechanisms.nmodl.reading.keywords import BLOCKS, FUNCTIONS_OF_NEURON
from clhines.simulator.mechanisms.nmodl.reading.lexer import MAX_TEXT, Includes, tokens
from clhines.simulator.mechanisms.nmodl.reading.names import BUILT_IN
from clhines.simulator.mechanisms.nmodl.reading.statements import read_block
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    PICKED,
    Block,
    Declaration,
    File,
    Refused,
    Statement,
    UseIon,
    not_neuron,
    raise_first,
    refuse,
)
from clhines.simulator.mechanisms.nmodl.reading.verbatim import without_returns
from clhines.simulator.refusals import id_of

_NAMED = {  # blocks that have a name and arguments
    "PROCEDURE", "FUNCTION", "DERIVATIVE", "KINETIC", "LINEAR", "NONLINEAR", "DISCRETE",
}  # fmt: skip
_VALUED = {"DERIVATIVE", "KINETIC", "LINEAR", "NONLINEAR", "DISCRETE"}  # keep C's ``return``
_PLAIN = {"INITIAL", "BREAKPOINT", "CONSTRUCTOR", "DESTRUCTOR"}
_DECLARED = {
    "PARAMETER": "parameter", "CONSTANT": "constant", "ASSIGNED": "assigned",
    "STATE": "state",
}  # fmt: skip
_LISTS = {
    "RANGE": "range", "GLOBAL": "globals", "NONSPECIFIC_CURRENT": "nonspecific",
    "ELECTRODE_CURRENT": "electrode", "POINTER": "pointers", "BBCOREPOINTER": "core_pointers",
    "RANDOM": "random",
}  # fmt: skip
_KINDS = {"SUFFIX": "density", "POINT_PROCESS": "point", "ARTIFICIAL_CELL": "artificial"}
_NEURON = {*_LISTS, *_KINDS, "USEION", "THREADSAFE", "REPRESENTS", "EXTERNAL"}
_PART = re.compile(r"([A-Za-z]+)\^?(\d*)|([-+]?\d*\.?\d+(?:[eE][-+]?\d+|[-+]\d+)?)|([/*\s.-])")
_MOLE = Fraction("6.02214076e23")  # a number, as in NEURON's unit table
_E, _K = Fraction("1.602176634e-19"), Fraction("1.380649e-23")
_PI = Fraction("3.14159265358979323846")
NUMBERS: dict[str, Scaled] = {  # units and constants that UNITS blocks may use as numbers
    **{name: (s * _MOLE ** d[4], (*d[:4], 0, d[5])) for name, (s, d) in UNITS.items()},
    **{name: (Fraction(1), (0,) * 6) for name in ("radian", "rad", "fuzz", "dimensionless")},
    **{name: (_PI / 180, (0,) * 6) for name in ("degree", "deg")},
    **{name: (_K, (2, 1, -2, 0, 0, -1)) for name in ("k", "boltzmann")},
    "pi": (_PI, (0,) * 6),
    "percent": (Fraction("1e-2"), (0,) * 6),
    "c": (Fraction(299792458), (1, 0, -1, 0, 0, 0)),
    "e": (_E, (0, 0, 1, 1, 0, 0)),
    "faraday": (_E * _MOLE, (0, 0, 1, 1, 0, 0)),
    "R": (_K * _MOLE, (2, 1, -2, 0, 0, -1)),
    "planck": (Fraction("6.62607015e-34"), (2, 1, -1, 0, 0, 0)),
}
_UNIT_PREFIXES = {  # the longest first
    prefix: power
    for prefix, power in sorted({**LONG_PREFIXES, **PREFIXES}.items(), key=lambda p: -len(p[0]))
    if prefix not in ("T", "da", "a")
}


class FileParser(Cursor):
    def file(self, path: str) -> File:
        """Parse all tokens as the file `path`."""
        self.result = File(path)
        self._blocks()
        check(self.result, self.used)
        stem = Path(path).stem
        if (
            not self.result.suffix
            and path.endswith(".mod")
            and stem.isascii()
            and stem.isidentifier()
        ):
            self.result.suffix = stem  # as NEURON calls it
        main = (block for name, block in self.result.main.items() if name != "BREAKPOINT")
        for block in (*main, *self.result.blocks.values()):
            if block.sort not in _VALUED:
                block.body = without_returns(block.body)
        self._take_streams()
        self._declare_starts()
        return self.result

    def _blocks(self) -> None:
        refused = list[Refused]()
        while self.token.sort != "end":
            begin = self.place
            try:
                self._top()
            except Refused as one:
                refused.append(one)
                if id_of(one.construct) == "mod.syntax":  # what follows may be no block
                    break
                self._skip_block(begin)
        raise_first(refused)

    def _skip_block(self, begin: int) -> None:
        self.sort, self.depth, depth = "", 0, 0
        self.scopes.clear()
        self.place = begin
        while self.token.sort != "end":
            depth += (self.token.text == "{") - (self.token.text == "}")
            self.place += 1
            if depth <= 0 and self.tokens[self.place - 1].text == "}":
                break

    def _take_streams(self) -> None:
        """Turn POINTERs from which C draws random numbers into RANDOM variables.

        List them in `picked`. For a hoc Random, declare its distribution's parameters.
        """
        file = self.result
        pointers = {**file.pointers, **file.core_pointers}
        for name in [name for name in self.drawn if name in pointers]:
            file.random[name] = pointers[name]
            file.pointers.pop(name, None)
            file.core_pointers.pop(name, None)
            file.variables.pop(name, None)
            file.picked.append(name)
            # the Random's distribution: low + width*u - mean*log(u), u uniform from 0 to 1
            of_erand = float(self.drawn[name] and self.has_exponential)
            for end, value in zip(PICKED, (0, 1 - of_erand, of_erand), strict=True):
                declaration = Declaration(
                    f"{name}_{end}", "parameter", pointers[name], value=Fraction(value)
                )
                if self.drawn[name]:
                    self._declare(declaration)
                    file.range[declaration.name] = declaration.line

    def _declare_starts(self) -> None:
        """Declare NAME0, the start value of STATE NAME, if RANGE or GLOBAL lists NAME0."""
        file = self.result
        for state in [v for v in file.variables.values() if v.sort == "state" and not v.value]:
            name = f"{state.name}0"
            line = file.range.get(name) or file.globals.get(name)
            if line and name not in file.variables:
                self._declare(Declaration(name, "parameter", line, value=Fraction(0)))

    def _top(self) -> None:
        token = self.token
        word = token.text
        if token.sort == "verbatim":
            self.result.verbatim.append((token.line, word))
            self.place += 1
        elif token.sort != "name":
            raise self.wrong()
        elif word in _NAMED:
            self._block_of(word)
        elif word in _PLAIN:
            self.place += 1
            self._main(word, Block(word, word, token.line, (), read_block(self)))
        elif word in _DECLARED:
            self.place += 1
            self._quantities(_DECLARED[word])
        else:
            reader = {
                "NEURON": self._neuron, "UNITS": self._units,
                "INDEPENDENT": self._independent, "LOCAL": self._locals,
                "DEFINE": self._define, "NET_RECEIVE": self._receive, "BEFORE": self._when,
                "AFTER": self._when, "FUNCTION_TABLE": self._function_table,
                "UNITSON": lambda: None, "UNITSOFF": lambda: None,
            }.get(word)  # fmt: skip
            if reader is None:
                raise self.wrong()
            self.place += 1
            reader()

    def _main(self, name: str, block: Block) -> None:
        first = self.result.main.setdefault(name, block)
        if first is block:
            return
        if name not in ("INITIAL", "BREAKPOINT"):
            raise refuse("mod.second-block", block.line, name=name)
        first.body = [  # NEURON executes them one after another, each with its own LOCALs
            Statement("if", block.line, values=(("number", Fraction(1)),), blocks=[body])
            for body in (first.body, block.body)
        ]

    def _block_of(self, sort: str) -> None:
        line = self.token.line
        self.place += 1
        name = self.name()
        arguments = self.arguments() if sort in ("PROCEDURE", "FUNCTION") else ()
        if arguments or sort in ("PROCEDURE", "FUNCTION"):
            self.unit()
        if sort in ("LINEAR", "NONLINEAR", "KINETIC") and self.take("SOLVEFOR"):
            self.names()
        block = Block(sort, name, line, arguments, read_block(self, sort, arguments))
        if name in self.result.blocks:
            raise refuse("mod.second-block", line, name=name)
        self.result.blocks[name] = block

    def _independent(self) -> None:
        self.need("{")
        self.name()
        for word in ("FROM", "TO", "WITH"):
            self.need(word)
            self.signed()
        self.unit()
        self.need("}")

    def _function_table(self) -> None:
        line, name = self.token.line, self.name()
        arguments = self.arguments()
        self.unit()
        self.result.blocks[name] = Block("FUNCTION_TABLE", name, line, arguments, [])

    def _receive(self) -> None:
        line = self.token.line
        arguments = self.arguments()
        body = read_block(self, "", arguments)
        self._main("NET_RECEIVE", Block("NET_RECEIVE", "", line, arguments, body))

    def _when(self) -> None:
        line, before = self.token.line, self.tokens[self.place - 1].text
        which = self.word()
        if which not in ("BREAKPOINT", "SOLVE", "INITIAL", "STEP"):
            raise not_neuron(
                f"{before} {which[:40]}", line, "use BREAKPOINT, SOLVE, INITIAL or STEP"
            )
        self._main(f"{before} {which}", Block(before, which, line, (), read_block(self)))

    def _neuron(self) -> None:
        self.need("{")
        while not self.take("}"):
            word, line = self.word(), self.tokens[self.place - 1].line
            if word in _KINDS:
                kinds = self.result.kind, _KINDS[word]  # of several words the last one names it
                self.result.kind = max(kinds, key=[*_KINDS.values()].index)
                self.result.line, self.result.suffix = line, self.name()
            elif word in _LISTS:
                target: dict[str, int] = getattr(self.result, _LISTS[word])
                target.update(dict.fromkeys(self.names(), line))
            elif word == "EXTERNAL":
                raise refuse("mod.external", line, name=self.name())
            elif word == "USEION":
                self._ion()
            elif word == "REPRESENTS":
                self._represents()
            elif word in BLOCKS:
                self.place -= 1
                raise self.wrong()
            elif word != "THREADSAFE":
                raise refuse("mod.neuron-block", line, word=word)

    def _represents(self) -> None:
        while self.token.sort != "end" and self.token.text not in _NEURON | {"}"}:
            self.place += 1

    def _ion(self) -> None:
        line, ion = self.token.line, UseIon(self.name())
        if any(other.name == ion.name for other in self.result.ions):
            raise not_neuron(f"a second USEION {ion.name}", line, "join them")
        if self.take("READ"):
            ion.reads = self.names()
        if self.take("WRITE"):
            ion.writes = self.names()
        if not (ion.reads or ion.writes):
            raise self.wrong()
        names = {pattern.format(ion.name) for pattern in ("e{}", "i{}", "{}i", "{}o")}
        for name in (*ion.reads, *ion.writes):
            if name not in names:
                what = f"'{name[:40]}' of USEION {ion.name}"
                raise not_neuron(what, line, f"it has {', '.join(sorted(names))}")
        if self.take("VALENCE") or self.take("CHARGE"):
            ion.valence = float(self.signed())
        if self.take("REPRESENTS"):
            self._represents()
        self.result.ions.append(ion)

    def _units(self) -> None:
        self.need("{")
        while not self.take("}"):
            line = self.token.line
            if self.token.text == "(":
                name = self.unit()
                self.need("=")
                self.own_units[name] = self.unit()
                continue
            name = self.name()
            self.need("=")
            if self.token.sort == "number":
                value = self.signed()
                self._needed_unit()
            else:
                first = self._needed_unit()
                self.take("->")
                value = factor(first, self._needed_unit(), self.own_units, line)
            self._declare(Declaration(name, "constant", line, value=value))

    def _needed_unit(self) -> str:
        if self.token.text != "(":
            raise self.wrong()
        return self.unit()

    def _declare(self, variable: Declaration) -> None:
        earlier = self.result.variables.get(variable.name)
        if variable.name in self.defines:
            raise not_neuron(f"'{variable.name}', a DEFINE, is declared", variable.line)
        if earlier is not None and earlier.sort != "pointer":
            raise refuse("mod.declared-twice", variable.line, name=variable.name)
        self.result.variables[variable.name] = variable

    def _quantities(self, sort: str) -> None:
        changes = sort in ("assigned", "state")
        self.need("{")
        while not self.take("}"):
            line, name = self.token.line, self.name()
            length = 0 if sort == "constant" else self.length()
            if changes and self.take("FROM"):
                self.signed()
                self.need("TO")
                self.signed()
            has_value = self.take("=") if not changes else sort == "state" and self.take("START")
            if (has_value and not changes and length) or (sort == "constant" and not has_value):
                raise self.wrong()
            value = self.signed() if has_value else None
            unit = self.unit()
            if sort == "parameter":
                self.limits()
            elif sort == "state" and self.take("<"):  # a tolerance
                self.signed()
                self.need(">")
            self._declare(Declaration(name, sort, line, length, value, unit))

    def _locals(self) -> None:
        while True:
            line, name, length = self.token.line, self.name(), self.length()
            if name in ("v", "t", "dt", *BUILT_IN):  # the statements below would see it instead
                raise refuse("mod.declared-twice", line, name=name)
            self._declare(Declaration(name, "local", line, length))
            if not self.take(","):
                return

    def _define(self) -> None:
        line, name = self.token.line, self.name()
        if name in self.defines:
            raise not_neuron(f"a second DEFINE {name}", line)
        if name in FUNCTIONS_OF_NEURON or name == "t":
            raise not_neuron(f"DEFINE {name}", line)
        self.defines[name] = self.whole()


def parse(
    text: str, path: str = "", includes: Includes | None = None, changes: FileChanges | None = None
) -> File:
    """Parse an NMODL text and apply changes, or raise Refused; messages name the file `path`."""
    if len(text) > MAX_TEXT:
        raise refuse("mod.too-much-text", most=MAX_TEXT)
    statics = dict(changes.statics) if changes else {}
    file = FileParser(tokens(text, includes or Includes(), statics)).file(path)
    return changed(file, changes) if changes else file


# -- numbers in UNITS blocks, as in FARADAY = (faraday) (coulomb) --------------------------------


def factor(first: str, second: str, units_of_file: Mapping[str, str], line: int) -> Fraction:
    """Return the unit `first` in multiples of `second`; Refused if their dimensions differ."""
    a, b = (_size(unit, units_of_file, line, 0) for unit in (first, second))
    if b == (Fraction(1), (0,) * 6):
        return a[0]
    if a[1] != b[1]:
        raise refuse("mod.units-no-multiple", line, first=first, second=second)
    return a[0] / b[0]


def _size(text: str, units_of_file: Mapping[str, str], line: int, depth: int) -> Scaled:
    if text in units_of_file and units_of_file[text] != text and depth < 20:
        return _size(units_of_file[text], units_of_file, line, depth + 1)
    size, dimension, sign, at = Fraction(1), [0] * 6, 1, 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise refuse("mod.unknown-unit", line, text=text)
        at = match.end()
        name, exponent, number, mark = match.groups()
        if mark is not None:
            sign = -1 if mark == "/" else sign
            continue
        if number is not None:
            size *= _number(number) ** sign
            continue
        one = _named(name, units_of_file, line, depth)
        if one is None:
            raise refuse("mod.unknown-unit", line, text=text)
        power = sign * int(exponent or 1)
        size *= one[0] ** power
        dimension = [d + power * e for d, e in zip(dimension, one[1], strict=True)]
    return size, tuple(dimension)


def _number(text: str) -> Fraction:
    plain = re.fullmatch(r"(\d*\.?\d+)([-+]\d+)", text)  # 1-3 is 1e-3
    return Fraction(f"{plain[1]}e{plain[2]}" if plain else text)


def _named(name: str, units_of_file: Mapping[str, str], line: int, depth: int) -> Scaled | None:
    if name in units_of_file and units_of_file[name] != name and depth < 20:
        return _size(units_of_file[name], units_of_file, line, depth + 1)
    if name in NUMBERS:
        return NUMBERS[name]
    if name.endswith("s") and len(name) > 3:
        one = _named(name[:-1], units_of_file, line, depth)
        if one is not None:
            return one
    for prefix, power in _UNIT_PREFIXES.items():
        rest = name[len(prefix) :]
        if name.startswith(prefix) and rest in NUMBERS:
            size, dimension = NUMBERS[rest]
            return size * Fraction(10) ** power, dimension
    return None
