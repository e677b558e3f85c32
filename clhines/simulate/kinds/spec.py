"""Kinds of instances in kernels of whole cells: their functions, and how their numbers lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.emit.printer import folded
from clhines.model.model import Kind
from clhines.plan.kernel_spec import Parameter, parameter


@dataclass(frozen=True)
class MechanismSpec:
    """Everything a template needs to know about one mechanism of a network.

    `name` begins the names of its functions; currents and conductances are multiplied by a factor
    of each instance where it is a `density`. With `width` instances of a group, one a lane of a
    vector of ``epoch_vector.mako``, number s of lane l of group q lies at
    ``(q * num_numbers + s) * width + l``, of states and of parameters that are not `single`.

    Of epochs on GPUs: `number` is that of instance 0 among all instances, which noise is drawn by,
    `first_target` its number among the targets of events; `literals` are parameters that are one
    number, else empty; `most` instances are in a work-group; `factor` makes the factor of a node of
    its capacitance over dt; and with `local` states lie in local memory.
    """

    name: str
    source: str = field(repr=False)
    parameters: tuple[str, ...]
    states: tuple[str, ...]
    single: tuple[bool, ...]
    density: bool
    takes_events: bool
    uses_noise: bool
    width: int = 0
    num_constants: int = 0
    number: int = 0
    literals: tuple[str, ...] = ()
    most: int = 0
    factor: str = ""
    first_target: int = 0
    local: bool = True

    @property
    def num_states(self) -> int:
        """States of an instance."""
        return len(self.states)

    @property
    def num_given(self) -> int:
        """Parameters that are not single."""
        return len(self.single) - sum(self.single)

    @property
    def takes_events_at_once(self) -> bool:
        """Whether there is a function for events of all lanes of a group."""
        return self.width > 1 and f" {self.name}__v{self.width}_event(" in self.source

    def wrappers(self, k: int) -> str:
        """Return functions of one group of kind `k`, with its numbers in global memory."""
        return _of_groups(self, k)

    def values(self, given: str) -> list[str]:
        """Values of the parameters, in order; `given` shows those that are not single."""
        places = iter(range(self.num_given)), iter(range(sum(self.single)))
        return [
            f"p[{next(places[1])}]" if single else given.format(next(places[0]))
            for single in self.single
        ]


def of_each_kind(texts: Sequence[str], kinds: Sequence[MechanismSpec]) -> list[Parameter]:
    """Parameters that a kernel takes of each kind, one kind after another.

    `texts` are as in `TemplateSpec.kernels`, with ``{k}``, ``{name}`` and ``{width}`` for the
    number and attributes of a kind.
    """
    return [
        parameter(text.format(k=k, name=kind.name, width=kind.width))
        for k, kind in enumerate(kinds)
        for several in texts
        for text in several.split(",")
    ]


def _of_groups(kind: MechanismSpec, k: int) -> str:
    """Functions of one group of kind `k`."""
    vector, n = f"real{kind.width}", kind.num_states
    prefix = kind.name if kind.width == 1 else f"{kind.name}__v{kind.width}"
    values = [*kind.values("given[{}]"), *(f"c[{i}]" for i in range(kind.num_constants))]
    states, noise = [f"s[{i}]" for i in range(n)], ["noise"] if kind.uses_noise else []
    where = f"__global const real *p, const real *c, __global const {vector} *given, __global"
    text = ""
    if kind.num_constants:
        single = [v for v in values if v.startswith("p[")]
        results = [f"c + {i}" for i in range(kind.num_constants)]
        text += (
            f"static void constants_{k}(const real dt, __global const real *p, real *c)\n"
            f"{{\n    {kind.name}_constants({', '.join(['dt', *single, *results])});\n}}\n\n"
        )
    given = ", ".join(["v", "t", "dt", *values, *states, *noise, "i", "g"])
    text += (
        f"static void current_{k}(const {vector} v, const real t, const real dt,\n"
        f"    {where} const {vector} *s,\n    const {vector} noise, {vector} *i, {vector} *g)\n"
        f"{{\n{folded(f'    {prefix}_current({given});')}\n}}\n"
    )
    if n:
        pointers = [f"&s{i}" for i in range(n)]
        given = ", ".join(["v", "t", "dt", *values, *pointers])
        text += (
            f"\nstatic void advance_{k}(const {vector} v, const real t, const real dt,\n"
            f"    {where} {vector} *s)\n{{\n{_loads(vector, states)}"
            f"{folded(f'    {prefix}_advance({given});')}\n{_stores(states)}}}\n"
        )
    if kind.takes_events:
        text += _event_of_lane(kind, k)
    if kind.takes_events_at_once:
        given = ", ".join(["weight", *values, *(f"&s{i}" for i in range(n))])
        where = f"const {vector} weight, {where} {vector} *s"
        chosen = "".join(f"    s[{i}] = weight != (real)0 ? s{i} : s[{i}];\n" for i in range(n))
        text += (
            f"\n{folded(f'static void events_{k}({where})')}\n{{\n{_loads(vector, states)}"
            f"{folded(f'    {prefix}_event({given});')}\n{chosen}}}\n"
        )
    return text


def _event_of_lane(kind: MechanismSpec, k: int) -> str:
    """Return the function of an event of one lane of a group."""
    w = kind.width
    states = [f"s[{f'{i * w} + ' if i else ''}lane]" for i in range(kind.num_states)]
    pointers = [f"&s{i}" for i in range(kind.num_states)]
    given = ", ".join(["weight", *kind.values(f"given[{{}} * {w} + lane]"), *pointers])
    return (
        f"\nstatic void event_{k}(const real weight, const int lane, __global const real *p,\n"
        f"    __global const real *given, __global real *s)\n{{\n"
        f"{_loads('real', states)}{folded(f'    {kind.name}_event({given});')}\n"
        f"{_stores(states)}}}\n"
    )


def _loads(real: str, states: list[str]) -> str:
    return "".join(f"    {real} s{i} = {state};\n" for i, state in enumerate(states))


def _stores(states: list[str]) -> str:
    return "".join(f"    {state} = s{i};\n" for i, state in enumerate(states))


def grouped_kind_spec(kind: Kind, real: str, width: int) -> MechanismSpec:
    """Return what a template needs to know of a kind whose instances it takes in groups."""
    check_parameters(kind, np.dtype(np.float32 if real == "float" else np.float64))
    plain = described(kind)
    names = [n for n, s in zip(kind.mechanism.parameters, plain.single, strict=True) if s]
    functions, constants = kind.mechanism.grouped(real, width, names)
    return replace(plain, source=functions, width=width, num_constants=len(constants))


def kind_spec(kind: Kind, real: str) -> MechanismSpec:
    """Return what a template needs to know of a kind."""
    return replace(described(kind), source=kind.mechanism.functions(real))


def described(kind: Kind) -> MechanismSpec:
    """Everything about a kind but its source."""
    mechanism = kind.mechanism
    return MechanismSpec(
        name=mechanism.name,
        source="",
        parameters=tuple(mechanism.parameters),
        states=tuple(mechanism.states),
        single=tuple(np.ndim(kind.parameters[name]) == 0 for name in mechanism.parameters),
        takes_events=mechanism.takes_events,
        uses_noise=mechanism.uses_noise,
        density=mechanism.kind == "density",
    )


def check_parameters(kind: Kind, dtype: np.dtype) -> None:
    """Check that a precision has the parameters of a kind: none would be infinite."""
    for name, value in kind.parameters.items():
        largest = float(np.abs(value).max(initial=0.0))
        if largest > float(np.finfo(dtype).max):
            raise InputError(
                f"{kind.mechanism.name}: {name} is {largest:g}; expected at most "
                f"{np.finfo(dtype).max:.3g}, the largest number of {np.dtype(dtype).name}"
            )


def check_constants(dtype: np.dtype, **values: np.ndarray) -> None:
    """Check that a precision has what is constant in each node: (m,) float64 by name, uS or nA."""
    most = np.finfo(dtype).max
    for name, sums in values.items():
        bad = np.flatnonzero(~(np.abs(sums) <= most))
        if len(bad):
            raise InputError(
                f"{name.replace('_', ' ')} of node {bad[0]} adds up to {sums[bad[0]]:g}; "
                f"expected at most {most:.3g}, the largest number of {np.dtype(dtype).name}"
            )


def place_of(kind: Kind, name: str) -> tuple[bool, int]:
    """Whether a parameter is one number for all instances, and which of those that are, or not."""
    whole = {n: isinstance(v, np.ndarray) and v.ndim > 0 for n, v in kind.parameters.items()}
    alike = [n for n in kind.mechanism.parameters if whole[n] == whole[name]]
    return not whole[name], alike.index(name)
