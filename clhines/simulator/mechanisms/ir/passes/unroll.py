"""Unroll: loops of a fixed number of turns as expressions."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import Node

MAX_TURNS = 64


def unroll(body: Body) -> Body:
    """Return a body without loops that have few turns, their number fixed, and no loops inside."""
    symbols: dict[Node, Node] = {}
    loops = []
    for loop in body.loops:
        fixed = loop.go_on is None and loop.entered is None and not loop.inner
        if not fixed or loop.most > MAX_TURNS:
            loops.append(loop)
            continue
        graph = loop.starts[0].graph
        names = [graph.symbol(name) for name in loop.names]
        values = graph.replaced(loop.starts, dict(symbols))
        for _ in range(loop.most):
            given = symbols | dict(zip(names, values, strict=True))
            values = [graph.local("_turn", e) for e in graph.replaced(loop.values, given)]
        symbols |= zip(map(graph.symbol, loop.ends), values, strict=True)
    if not symbols:
        return body
    every = dict(symbols)
    graph = next(iter(symbols)).graph
    return replace(body, loops=loops).mapped(lambda e: graph.replaced([e], every)[0])
