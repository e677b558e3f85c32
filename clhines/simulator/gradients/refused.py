"""Check, before anything runs, that all requested derivatives exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clhines.core.errors import InputError
from clhines.simulator.gradients.adjoint import back_function
from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Node, postorder
from clhines.simulator.mechanisms.ir.passes.pull_back import pull_back
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import phrases
from clhines.simulator.records.records import MEMBRANE, Record
from clhines.simulator.refusals import refusal

NEEDS = frozenset("plastic layers diffusion steered_weights last_instances ion_order".split())
_NO_VALUES = ("unless", "table_", "grid_", "watch", "for_netcons")  # block name prefixes


def check_model(model: Model, surrogate: float | None) -> None:
    """Raise InputError if a network's steps cannot be differentiated."""
    if words := model.needs & NEEDS:
        raise InputError(refusal("gradient.needs", what=phrases(words)))
    if surrogate is not None and model.exact:
        raise InputError(refusal("gradient.surrogate-exact"))
    for (k, name), to in {**model.read, **model.written}.items():
        if (k, name) in model.written or name in model.kinds[k].mechanism.program.assigned:
            check_event_times(model.kinds[to.kind].mechanism, {to.state: to.state})
    for kind in model.kinds:
        mechanism, program = kind.mechanism, kind.mechanism.program
        if program.net is not None and program.net.for_netcons:
            raise InputError(refusal("gradient.for-netcons", name=mechanism.name))
        ions = (name for ion in program.ions for name in (*ion.reads, *ion.writes))
        pointers = {symbol: name for name, symbol in mechanism.compiled.pointers.items()}
        check_event_times(mechanism, pointers | {name: name for name in ("v", *ions)})
        if program.begun:
            raise InputError(refusal("gradient.last", name=mechanism.name, value=program.begun[0]))
        for block in (b for b in program.blocks if not b.startswith(_NO_VALUES)):
            try:
                back_function(mechanism, block)
            except InputError as error:
                said = {"name": mechanism.name, "block": block, "error": error}
                raise InputError(refusal("gradient.block", **said)) from error


def check_records(records: Sequence[Record]) -> None:
    """Raise InputError if there are no records, or reduced ones, or records of `i_membrane`."""
    if not records:
        raise InputError(refusal("gradient.no-record"))
    for record in records:
        if record.reduce:
            raise InputError(refusal("gradient.reduced", name=record.label, how=record.reduce))
        if record.kind == MEMBRANE:
            raise InputError(refusal("gradient.membrane"))


def check_parameter(mechanism: Mechanism, name: str) -> None:
    """Raise InputError if a settable value has no derivative, or acts through conditions only."""
    said = {"name": mechanism.name, "value": name}
    check_event_times(mechanism, {name: name})
    role = "parameter" if name in mechanism.parameters else "state"
    is_used, has_slope = False, False
    for block, body in mechanism.compiled.bodies.items():
        if name not in mechanism.compiled.free(block) or block.startswith("unless"):
            continue
        if block.startswith(("table_", "grid_")):
            raise InputError(refusal("gradient.table", **said))
        if block == "watch":
            raise InputError(refusal("gradient.watch", **said))
        drawn = (n for n in postorder(body.every()) if n.op.startswith(("random_", "scop_")))
        if any(node.uses(name) for node in drawn):
            raise InputError(refusal("gradient.drawn", **said))
        is_used = True
        back = back_function(mechanism, block)
        has_slope |= back is not None and any((a.role, a.name) == (role, name) for a in back[0].by)
    if is_used and not has_slope:
        raise InputError(refusal("gradient.choice", **said))


def check_weights(model: Model) -> None:
    """Raise InputError if a mechanism sends events at times that depend on a weight."""
    for mechanism in (kind.mechanism for kind in model.kinds):
        net = mechanism.program.net
        check_event_times(mechanism, {f"_{w}__weight": w for w in (net.weights if net else ())})


def check_event_times(mechanism: Mechanism, names: Mapping[str, str]) -> None:
    """Raise InputError if the times at which a mechanism sends events depend on a symbol.

    `names` has the symbols, each with its name in the message.
    """
    for symbol in sorted(_of_event_times(mechanism) & names.keys()):
        said = {"name": mechanism.name, "value": names[symbol]}
        raise InputError(refusal("gradient.event-time", **said))


def _of_event_times(mechanism: Mechanism) -> set[str]:
    """Return the symbols by which the times or flags of a mechanism's events have a derivative.

    They include symbols by which a state or weight with such a derivative has one.
    """

    def make() -> set[str]:
        bodies = {b: body for b, body in mechanism.compiled.bodies.items()
                  if b in mechanism.program.blocks and not b.startswith(_NO_VALUES)}  # fmt: skip
        results = [(body, *one) for body in bodies.values() for one in body.results]
        values = [(f"_{name}__weight", body, node)
                  for body, role, name, node in results if role == "weight"]  # fmt: skip
        values += [(n, body, e) for body in bodies.values() for n, e in body.writes.items()]
        by = {symbol for body, role, _, node in results if role == "send"
              for symbol in _symbols_by(body, node)}  # fmt: skip
        reached = set[str]()
        while by - reached:
            new, reached = by - reached, by | reached
            by = {symbol for name, body, node in values if name in new
                  for symbol in _symbols_by(body, node)}  # fmt: skip
        return reached

    times: set[str] = mechanism.compiled.once(("event times",), make)
    return times


def _symbols_by(body: Body, node: Node) -> set[str]:
    """Return the symbols by which an expression in a body has a derivative, or an unknown one."""
    free = Body(writes={"": node}, loops=body.loops).free([""])
    if not body.needed_loops([node]):
        try:
            return {*pull_back([(node, node.graph.one)], free)}
        except ExpressionError:  # no derivative of a function is known, or of a random draw
            pass
    return free


def is_of_start(mechanism: Mechanism, name: str) -> bool:
    """Whether the state at t = 0 depends on the parameter `name`, or `name` is a state."""
    if name not in mechanism.parameters:
        return True
    blocks = [b for b in ("before_initial", "initial", "after_initial", "net_initial")
              if b in mechanism.program.blocks]  # fmt: skip
    backs = [back_function(mechanism, block) for block in blocks]
    return any((a.role, a.name) == ("parameter", name) for b in backs if b for a in b[0].by)
