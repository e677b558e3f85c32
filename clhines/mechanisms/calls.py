"""NumPy functions of a mechanism, called with values by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.errors import InputError
from clhines.mechanisms.emit import random123, scop
from clhines.mechanisms.emit.functions import Functions
from clhines.mechanisms.ir.compiled import Compiled
from clhines.mechanisms.ir.program import Argument, Program
from clhines.quantities import as_numbers

Values = Mapping[str, ArrayLike]
_WORDS = {  # what users cannot give by name
    "t": "the time",
    "v": "the voltage",
    "dt": "the step",
    "table": "the table",
    "stream": "random numbers of",
    "drawn": "random numbers of",
    "weight": "several weights, as",
}


def twin(compiled: Compiled, block: str, outputs: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return the NumPy function of a block: inputs in order to a tuple of results in order."""

    def make() -> object:  # what is run is printed of numbers and checked names
        compiled.calls(block)
        name = compiled.program.name
        source = Functions(compiled, "numpy", outputs=outputs).text([block])
        space: dict[str, Any] = {"np": np, "random123": random123, "scop": scop}
        exec(compile(source, f"<mechanism {name}>", "exec"), space)
        return space[f"{name}_{compiled.bodies[block].suffix or block}"]

    found: Callable[..., Any] = compiled.once(("twin", block, outputs), make)
    return found


def called(
    compiled: Compiled,
    block: str,
    given: Mapping[str, Any],
    params: Values | None,
    states: Values | None,
) -> dict[tuple[str, str], Any]:
    """Call the twin of a block, if there is one; return its results by role and name.

    `given` has by role what is no variable of the mechanism; `params` has variables of ions and
    pointers, too, and parameters that are not in it have their defaults. An InputError says that a
    name is unknown, or that the block needs what is not given.
    """
    program = compiled.program
    arguments = program.blocks.get(block, ())
    known = _known(program, params, states)
    taken = [a for a in arguments if a.direction != "out"]
    values = [_value(program, a, block, given, known) for a in taken]
    # NumPy's numbers, as Python's raise on a division by 0
    values = [np.float64(x) if isinstance(x, int | float) else x for x in values]
    with np.errstate(all="ignore"):  # np.where computes both of its branches
        results = twin(compiled, block)(*values) if arguments else ()
    changed = [(a.role, a.name) for a in arguments if a.direction != "in"]
    return dict(zip(changed, results, strict=True))


def states_after(
    compiled: Compiled,
    block: str,
    given: Mapping[str, Any],
    params: Values | None,
    states: Values | None,
) -> dict[str, np.ndarray]:
    """Return states and concentrations after a block; arguments are as of `called`.

    They are of the shape to which all of them and the voltage or weight broadcast.
    """
    found = called(compiled, block, given, params, states)
    after = {name: x for (role, name), x in found.items() if role in ("state", "ion")}
    old = states or {}
    values = {q.name: old[q.name] for q in compiled.program.states if q.name in old} | after
    like: Any = given.get("v", given.get("weight"))
    shape = np.broadcast_shapes(np.shape(like), *map(np.shape, values.values()))
    return {name: np.broadcast_to(x, shape).copy() for name, x in values.items()}


def _known(program: Program, params: Values | None, states: Values | None) -> dict[str, Any]:
    """Return variables by name, in their units: defaults, and what is given."""
    outside = [name for ion in program.ions for name in (*ion.reads, *ion.writes)]
    names = [*program.settable, *outside, *program.pointers]
    unknown = [name for name in params or () if name not in names]
    if unknown:
        raise InputError(
            f"mechanism {program.name} has no parameter '{unknown[0]}'; "
            f"it has {', '.join(names) or 'none'}"
        )
    given, units = {**(states or {}), **(params or {})}, program.units
    return {**program.defaults, **{k: as_numbers(k, x, units.get(k)) for k, x in given.items()}}


def _value(
    program: Program, a: Argument, block: str, given: Mapping[str, Any], known: Mapping[str, Any]
) -> Any:
    """Return the value of an argument."""
    net = program.net
    several = a.role == "weight" and net is not None and len(net.weights) > 1
    if a.role in given and not several:
        return given["t"] + given["dt"] if (a.role, a.name) == ("t", "end") else given[a.role]
    if a.role not in ("parameter", "state", "ion", "pointer"):
        raise InputError(
            f"mechanism {program.name}: its {block} needs {_WORDS.get(a.role, a.role)} "
            f"'{a.name}'; expected a call of twin('{block}') of what calls('{block}') lists"
        )
    if a.name not in known:
        more = "" if a.role == "state" else "; expected it among the parameters"
        raise InputError(f"mechanism {program.name}: no value of {a.role} '{a.name}'{more}")
    return known[a.name]
