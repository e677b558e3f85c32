"""Refuse files that NEURON's translator refuses after parsing: names, misplaced statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from clhines.simulator.mechanisms.nmodl.reading.keywords import FUNCTIONS_OF_NEURON
from clhines.simulator.mechanisms.nmodl.reading.statements import check_index
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    File,
    Refused,
    all_of,
    not_neuron,
    raise_first,
    refuse,
)

_EQUATIONS = {  # statements that a block must have
    "DERIVATIVE": ("prime",),
    "KINETIC": ("reaction", "conserve"),
    "LINEAR": ("equation",),
    "NONLINEAR": ("equation",),
}


def check(file: File, used: Sequence[tuple[str, bool, int]]) -> None:
    """Refuse a file as NEURON does; `used`: names in statements, whether indexed, and lines."""
    every = [*file.main.values(), *file.blocks.values()]
    checks = [partial(_check_names, file), partial(_check_indices, file, used)]
    checks += [partial(_check_lists, file), *(partial(_check_places, file, b) for b in every)]
    checks += [*(partial(_check_block, file, b) for b in file.blocks.values())]
    refused = list[Refused]()
    for one in (*checks, partial(_check_events, file)):
        try:
            one()
        except Refused as refusal_:
            refused.append(refusal_)
    raise_first(refused)


def _check_events(file: File) -> None:
    for name in ("NET_RECEIVE", "DESTRUCTOR"):
        if name in file.main and file.kind == "density":
            raise not_neuron(f"{name} in a density mechanism", file.main[name].line)
    receive = file.main.get("NET_RECEIVE")
    if receive is not None and not receive.arguments:
        raise not_neuron("NET_RECEIVE without an argument", receive.line, "it has the weight first")


def _check_names(file: File) -> None:
    for variable in file.variables.values():
        name, sort = variable.name, variable.sort
        if sort == "local":
            continue
        if name in FUNCTIONS_OF_NEURON:
            raise not_neuron(f"'{name}', a function of NEURON, is declared", variable.line)
        if name == "t":
            raise not_neuron("'t', the time, is declared", variable.line, "leave it out")
        if name.startswith("D") and name[1:] in file.states:
            what = f"'{name}', which is the rate of {name[1:]} in NEURON, is declared"
            raise not_neuron(what, variable.line, "give it another name")
        if name in file.random:
            raise not_neuron(f"RANDOM {name} is declared again", variable.line)
    for name, line in file.random.items():
        if name in FUNCTIONS_OF_NEURON or name == "t":
            raise not_neuron(f"RANDOM {name}", line)
    for block in file.blocks.values():
        namesake = file.variables.get(block.name)
        if block.name in FUNCTIONS_OF_NEURON or block.name == "t":
            of = "the time" if block.name == "t" else "a function of NEURON"
            what = f"{block.sort} {block.name}, {of}"
            raise not_neuron(what, block.line)
        if namesake is not None and namesake.sort != "local":
            what = f"'{block.name}' is a variable and a {block.sort}"
            raise not_neuron(what, block.line, "give one of them another name")


def _check_indices(file: File, used: Sequence[tuple[str, bool, int]]) -> None:
    for name, has_index, line in used:
        variable = file.variables.get(name)
        is_known = variable is not None and variable.line <= line
        check_index(name, variable.length if variable and is_known else 0, has_index, line)


def _check_lists(file: File) -> None:
    for word, shown in (("range", "RANGE"), ("globals", "GLOBAL")):
        for name in {"area", "diam"} & file.variables.keys() & getattr(file, word).keys():
            raise not_neuron(f"'{name}' in {shown}", getattr(file, word)[name])
    for word in ("globals", "pointers"):
        for name, line in getattr(file, word).items():
            if name not in file.variables and name.removesuffix("0") not in file.states:
                shown = {"globals": "GLOBAL", "pointers": "POINTER"}[word]
                raise not_neuron(f"{shown} {name} is not declared", line)


def _check_places(file: File, block: Block) -> None:
    ions = {ion.name for ion in file.ions}
    inside = ("NET_RECEIVE", "FOR_NETCONS")
    for s in all_of(block.body, "initial"):
        if block.sort not in inside:
            raise not_neuron(f"INITIAL in {block.sort}", s.line)
    for s in all_of(block.body, "table"):
        if block.sort not in ("FUNCTION", "PROCEDURE"):
            what = f"TABLE in {block.sort}"
            raise not_neuron(what, s.line, "use a PROCEDURE")
        if len(block.arguments) != 1:
            raise refuse("mod.table-arguments", s.line, count=len(block.arguments))
        if block.sort == "PROCEDURE" and not s.names[0]:
            raise refuse("mod.table-without-names", s.line, name=block.name)
        if block.sort == "FUNCTION" and s.names[0]:
            what = f"TABLE of {block.name} with names"
            raise not_neuron(what, s.line)
    for s in all_of(block.body, "conductance"):
        if s.names[1] and s.names[1] not in ions:
            raise not_neuron(f"CONDUCTANCE of {s.names[1]}, which no USEION names", s.line)
    solved = set[object]()
    for s in all_of(block.body, "solve") if block.sort == "BREAKPOINT" else ():
        if s.names[0] in solved:
            raise not_neuron(f"a second SOLVE {s.names[0]}", s.line)
        solved.add(s.names[0])


def _check_block(file: File, block: Block) -> None:
    kinds = _EQUATIONS.get(block.sort, ())
    if kinds and not any(all_of(block.body, kind) for kind in kinds):
        if block.sort == "DERIVATIVE":
            raise refuse("mod.derivative-has-no-rate", block.line, name=block.name)
        if block.sort == "KINETIC":
            raise refuse("mod.kinetic-without-states", block.line, name=block.name)
        raise not_neuron(f"{block.sort} {block.name} without an equation", block.line)
    if block.sort == "FUNCTION_TABLE" and not block.arguments:
        raise not_neuron(f"FUNCTION_TABLE {block.name} without an argument", block.line)
    for s in all_of(block.body, "prime"):
        variable = file.variables.get(str(s.names[0]))
        if variable is None or variable.sort != "state":
            raise not_neuron(f"{s.names[0]}' of what is no STATE", s.line)
