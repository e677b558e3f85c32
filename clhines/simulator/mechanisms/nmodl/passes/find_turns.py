"""Find variables that all instances share and that they set one after another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse

_POINTS = 8  # points at which a block is executed twice


def find_turns(blocks: FileBlocks) -> FileBlocks:
    """Find shared states for which instances compute different values.

    NEURON executes a block for one instance after the other. If a block reads a shared variable
    that it sets, an instance sees the value that the instance before has set. If only INITIAL sets
    the variable, from values of the instance, all instances later see the last instance's value.
    """
    differing, turned = _differing(blocks)
    in_turn, begun = list[str](), list[str]()
    for key in blocks.ordered(differing):
        variable = blocks.file.variables[blocks.names.elements[key]]
        setters = {block for block, body in blocks.bodies.items() if key in body.writes}
        by_initial = setters == {"initial"} and key not in turned
        if variable.sort == "local" and not by_initial:  # NEURON does not show its value
            raise refuse("mod.changed-in-turn", variable.line, name=variable.name)
        (begun if by_initial else in_turn).append(key)
    last = tuple(key for key in in_turn if _is_of_last(blocks, key))
    alone = tuple(blocks.names.public.get(k, k) for k in in_turn if k not in last)
    return replace(blocks, alone=alone, last=last, begun=tuple(begun))


def _differing(blocks: FileBlocks) -> tuple[set[str], set[str]]:
    """Return the shared states (GLOBALs) to which instances give different values.

    Also return those of them whose new value depends on shared states that the same block sets.
    """
    uniform = {k for k in blocks.states if blocks.names.is_global(k)}
    shared = {k for k in blocks.parameters if blocks.names.is_global(k)} | {"t", "dt"}
    differing, turned = set[str](), set[str]()
    settled: dict[str, set[str]] = {}
    before = -1
    while len(differing) > before:
        before = len(differing)
        for key in sorted(uniform - differing):
            for name, body in blocks.bodies.items():
                if key not in body.writes:
                    continue
                free = body.writes[key].free
                if free & uniform & body.writes.keys():
                    if name not in settled:
                        settled[name] = _settled(blocks, body, uniform)
                    if key not in settled[name]:
                        turned.add(key)
                if key in turned or not free <= (uniform - differing) | shared:
                    differing.add(key)
    return differing, turned


def _settled(blocks: FileBlocks, body: Body, uniform: set[str]) -> set[str]:
    """Return those `uniform` variables that a second execution of a block leaves unchanged.

    A block may set variables only while a flag is 0, and then set the flag to 1. The block is
    evaluated for some values of its inputs; variables that only INITIAL sets begin with defaults.
    """
    ends = [end for loop in body.loops for end in loop.ends]  # loops are not evaluated
    keys = [k for k, node in body.writes.items() if k in uniform and not node.uses(*ends)]
    nodes = [body.writes[k] for k in keys]
    later = {k for other in blocks.bodies.values() if other is not body for k in other.writes}
    begins = {*keys} - later if body is blocks.bodies.get("initial") else set()
    free = sorted({name for node in nodes for name in node.free} | {*keys})
    graph, random, settled = blocks.graph, Random(1), {*keys}

    def start(key: str, turn: int) -> Fraction:
        if (turn == 0 and key in blocks.names.elements) or key in begins:
            return Fraction(blocks.names.default(key))
        return Fraction(random.choice([0, 1, random.randint(2, 99)]))

    for turn in range(_POINTS):
        point: dict[Node, Node] = {graph.symbol(k): graph.number(start(k, turn)) for k in free}
        first = graph.replaced(nodes, {**point})
        point |= {graph.symbol(k): node for k, node in zip(keys, first, strict=True)}
        again = graph.replaced(nodes, point)
        settled -= {k for k, x, y in zip(keys, first, again, strict=True) if x is not y}
    return settled


def _is_of_last(blocks: FileBlocks, key: str) -> bool:
    bodies = blocks.bodies.items()
    reads = {name for name, body in bodies if key in body.free(blocks.needed)}
    sets = {name for name, body in bodies if key in body.writes}
    return reads | sets <= {"initial", "current", "advance"} and not reads & sets
