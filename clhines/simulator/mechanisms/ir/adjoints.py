"""Adjoints: for each block of a mechanism, a block that computes its derivatives backwards.

``NAME__back`` takes the inputs of block ``NAME``, as they were before ``NAME``, and a ``seed`` for
each result: the derivative of a loss with respect to it. It returns an ``adjoint`` for each
argument on which a result depends: the derivative of the loss with respect to the argument, through
this block alone.

    current: v, gbar, m -> i, g          current__back: v, gbar, m, seeds of i, g
                                                        -> adjoints of v, gbar, m

Iterations that solve equations, ``f(x, p) = 0``, are differentiated by the implicit function
theorem: with the weights w of x, ``-(w^T J^-1) df/dp``, where J is df/dx at the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from clhines.simulator.mechanisms.ir.compiled import Body, Compiled, Loop
from clhines.simulator.mechanisms.ir.elimination import solved
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph, Node
from clhines.simulator.mechanisms.ir.passes.pull_back import GROWING, pull_back
from clhines.simulator.mechanisms.ir.program import Argument

BACK = "{}__back"
# result roles with derivatives, and argument roles with respect to which these are
RESULTS = frozenset("i g ion ion_current state output weight set_v put add assign".split())
INPUTS = frozenset("v parameter state ion pointer weight".split())


@dataclass(frozen=True)
class AdjointBlock:
    """Block `name` of `compiled`: reverse-mode derivatives of another block.

    Its inputs are the other block's `inputs`, and a seed for each of its results in `seeded`: the
    loss's derivative by this result. It returns the loss's derivatives by the inputs in `by`.
    """

    compiled: Compiled
    name: str
    inputs: tuple[Argument, ...]
    seeded: tuple[Argument, ...]
    by: tuple[Argument, ...]


def label(a: Argument) -> str:
    return f"{a.role}_{a.name}"


def adjoint_of(
    compiled: Compiled,
    block: str,
    outputs: Sequence[str] = (),
    counts: Callable[[Argument], bool] = lambda a: True,
    growing: Container[str] = GROWING,
) -> AdjointBlock | None:
    """Return the block that computes a block's derivatives backwards; None if they are all 0.

    The block's function also returns the variables `outputs`. An argument for which `counts` is
    false is constant; a result for which it is false gets no seed. Functions in `growing` may
    overflow. ExpressionError if a function has no derivative.
    """
    arguments, body = compiled.calls(block, outputs), compiled.bodies[block]
    changed = [a for a in arguments if a.direction != "in" and a.role in RESULTS and counts(a)]
    inputs = tuple(replace(a, direction="in") for a in arguments if a.direction != "out")
    weighted, seeded = [], []
    for a in changed:
        value = _value(body, a)
        if value is not None:
            weighted.append((value, value.graph.symbol(f"_seed_{label(a)}")))
            seeded.append(a)
    if not weighted:
        return None
    wanted = {_symbol(a): a for a in inputs if a.role in INPUTS and counts(a)}
    slopes = _through(body, weighted, wanted, growing)
    arguments_by = tuple(a for name, a in wanted.items() if name in slopes)
    results = [("adjoint", label(a), slopes[_symbol(a)]) for a in arguments_by]
    back = Body(results, {}, body.loops, f"derivatives of a loss, back through {block}")
    seeds = tuple(Argument("seed", label(a)) for a in seeded)
    adjoints = tuple(Argument("adjoint", label(a), "out") for a in arguments_by)
    name = BACK.format(block)
    blocks = {**compiled.program.blocks, name: (*inputs, *seeds, *adjoints)}
    program = replace(compiled.program, blocks=blocks)
    whole = replace(compiled, program=program, bodies={**compiled.bodies, name: back}, printed={})
    return AdjointBlock(whole, name, inputs, tuple(seeded), arguments_by)


def _value(body: Body, a: Argument) -> Node | None:
    for role, name, node in body.results:
        if (role, name) == (a.role, a.name):
            return node
    return body.writes.get(a.name) if a.role in ("state", "output") else None


def _symbol(a: Argument) -> str:
    return a.symbol or {"v": "v", "weight": f"_{a.name}__weight"}.get(a.role, a.name)


def _through(
    body: Body,
    weighted: Sequence[tuple[Node, Node]],
    wanted: Iterable[str],
    growing: Container[str],
) -> dict[str, Node]:
    """Return the derivatives of ``sum(weight * node)`` with respect to `wanted` symbols.

    `weighted` has pairs (node, weight); functions in `growing` may overflow. The body's loops are
    differentiated by the equations that they solve.
    """
    loops = body.needed_loops([node for node, _ in weighted])
    ends = [end for loop in loops for end in loop.ends]
    slopes = pull_back(weighted, [*wanted, *ends], growing)
    for loop in reversed(loops):
        of_ends = {end: slopes.pop(end) for end in loop.ends if end in slopes}
        if not of_ends:
            continue
        graph = next(iter(of_ends.values())).graph
        equations = _at_solution(graph, loop, of_ends)
        matrix = {
            x: {y: graph.slope(e, x) for y, e in equations.items() if e.uses(x)} for x in equations
        }
        multipliers = solved(
            matrix, {x: of_ends.get(x, graph.zero) for x in equations}, graph.local
        )
        pairs = [(e, -multipliers[y]) for y, e in equations.items()]
        before = [end for end in ends if end not in loop.ends]
        for name, slope in pull_back(pairs, [*wanted, *before], growing).items():
            slopes[name] = slopes[name] + slope if name in slopes else slope
    return {name: slope for name, slope in slopes.items() if slope is not slope.graph.zero}


def _at_solution(graph: Graph, loop: Loop, of_ends: Iterable[str]) -> dict[str, Node]:
    """Return the equations that a loop solves, as expressions that its last values make 0.

    The keys name the loop's variables after the loop. ExpressionError if a variable in `of_ends`
    has no equation.
    """
    count = len(loop.equations)
    if not count or not {*of_ends} <= {*loop.ends[:count]}:
        raise ExpressionError("no derivative of a loop is known")
    symbols = {graph.symbol(n): graph.symbol(end) for n, end in zip(loop.names, loop.ends)}
    return dict(zip(loop.ends[:count], graph.replaced(loop.equations, symbols)))


__all__ = ["BACK", "AdjointBlock", "adjoint_of", "label"]
