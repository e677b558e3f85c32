"""RANDOM variables: random_uniform and the like, as functions of a stream and a count.

Of each stream that a block draws from, two values are kept while it is executed: ``keep`` and
``at`` of `random123`.
"""

from __future__ import annotations

from collections.abc import Sequence

from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.nmodl.reading.names import plain
from clhines.mechanisms.nmodl.reading.tree import Refused
from clhines.mechanisms.nmodl.values import Values, stream_keys

_TAKES = {
    "random_uniform": (0, 2),
    "random_normal": (0, 2),
    "random_negexp": (0, 1),
    "random_ipick": (0,),
    "random_dpick": (0,),
    "random_setseq": (1,),
}
_WHERE = (
    "initial", "current", "advance", "receive", "before_initial", "after_initial",
    "before_breakpoint", "after_solve", "before_step",
)  # fmt: skip


def drawn(run: Values, function: str, name: str, values: Sequence[Node], line: int) -> Node:
    """Return a random number of a stream, or set its place."""
    if name not in run.file.random:
        raise Refused(f"{function} of '{name}', which is not RANDOM", line)
    if function not in _TAKES:
        raise Refused(f"{function}", line, "set it by NEURON's set_ids or by Network.random")
    if len(values) not in _TAKES[function]:
        raise Refused(f"{function} is called with {len(values) + 1} arguments", line)
    solving = (run.primes, run.kinetic, run.equations)
    if run.where not in _WHERE or any(one is not None for one in solving) or run.inside_loop:
        raise Refused(f"{function} in {run.where}", line, "draw it in a PROCEDURE or in INITIAL")
    run.drew[name] = None
    graph, plain_name = run.graph, plain(name)
    keep, at = stream_keys(name)
    if function == "random_setseq":
        begin = graph.local("_begin", graph.call("floor", values[0]))
        run.values[keep], run.values[at] = graph.zero, begin
        return graph.zero
    place = run.values.get(keep, graph.one), run.values.get(at, graph.zero)
    given = graph.symbol(f"{plain_name}__stream"), graph.symbol(f"{plain_name}__drawn"), *place
    used = graph.call("random_used", *given) if function == "random_normal" else graph.one
    kind = {"random_ipick": "random_pick", "random_dpick": "random_uniform"}.get(function, function)
    value = graph.local(f"_{plain_name}_drawn", graph.call(kind, *given))
    run.values[keep] = place[0]
    run.values[at] = graph.local(f"_{plain_name}_place", place[1] + used)
    return _scaled(function, value, values)


def _scaled(function: str, value: Node, values: Sequence[Node]) -> Node:
    if not values:
        return value
    if function == "random_uniform":
        return values[0] + value * (values[1] - values[0])
    if function == "random_normal":
        return values[0] + value * values[1]
    return value * values[0]


def counts(run: Values) -> list[tuple[str, str, Node]]:
    """Return how many words each stream has given after a block."""
    found = []
    for name in run.drew:
        symbol = run.graph.symbol(f"{plain(name)}__drawn")
        place = [run.values[key] for key in stream_keys(name)]
        found.append(("drawn", plain(name), run.graph.call("random_count", symbol, *place)))
    return found
