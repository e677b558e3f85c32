"""Kinds of instances in kernels: their functions, and how parameters and states lie in memory.

States of a kind: state s of instance j at ``s * count + j``. Parameters: first those that are one
number for all instances, then the others, the p-th of these at ``numbers + p * count + j``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.noise import normal_source
from clhines.mechanisms.printer import folded
from clhines.network.model import Kind, Model


@dataclass(frozen=True)
class KindSpec:
    """Everything a template needs to know about one mechanism.

    Attributes
    ----------
    name : str
        Prefix of the mechanism's functions.
    functions : str
        Their OpenCL source.
    single : tuple of bool
        For each parameter, whether it is one number for all instances.
    num_states : int
    takes_events, uses_noise : bool
    density : bool
        Currents and conductances are multiplied by a factor of each instance.
    """

    name: str
    functions: str
    single: tuple[bool, ...]
    num_states: int
    takes_events: bool
    uses_noise: bool
    density: bool

    def _parameters(self) -> list[str]:
        """Values of the parameters of instance j, in order."""
        numbers, given = sum(self.single), [0, 0]
        values = []
        for single in self.single:
            place = given[single]
            given[single] += 1
            values.append(f"p[{place}]" if single else f"p[{numbers} + {place} * count + j]")
        return values

    def wrappers(self, k: int) -> str:
        """Return functions of instance `j` of kind `k`, with its numbers in global memory."""
        given, n = self._parameters(), self.num_states
        states = [f"s[{f'{i} * count + ' if i else ''}j]" for i in range(n)]
        noise = ["noise"] if self.uses_noise else []
        where = "const int count, const int j, __global const real *p, __global"
        values = ", ".join(["v", "t", "dt", *given, *states, *noise, "i", "g"])
        text = (
            f"static void current_{k}(const real v, const real t, const real dt, {where}\n"
            f"    const real *s, const real noise, real *i, real *g)\n{{\n"
            f"    {self.name}_current({values});\n}}\n"
        )
        load = "".join(f"    real s{i} = {state};\n" for i, state in enumerate(states))
        store = "".join(f"    {state} = s{i};\n" for i, state in enumerate(states))
        pointers = [f"&s{i}" for i in range(n)]
        if n:
            values = ", ".join(["v", "t", "dt", *given, *pointers])
            text += (
                f"\nstatic void advance_{k}(const real v, const real t, const real dt, {where} "
                f"real *s)\n{{\n{load}    {self.name}_advance({values});\n{store}}}\n"
            )
        if self.takes_events:
            values = ", ".join(["weight", *given, *pointers])
            text += (
                f"\nstatic void event_{k}(const real weight, {where} real *s)\n"
                f"{{\n{load}    {self.name}_event({values});\n{store}}}\n"
            )
        return text


@dataclass(frozen=True)
class GroupedKindSpec(KindSpec):
    """As `KindSpec`, for a template that takes instances in groups, one per lane of a vector.

    Number s of lane l of group q lies at ``(q * num_numbers + s) * width + l``, both for states and
    for the parameters that are not single.

    Attributes
    ----------
    width : int
        Instances of a group.
    num_constants : int
        Results of the mechanism's function of constants.
    """

    width: int
    num_constants: int

    @property
    def num_given(self) -> int:
        """Parameters that are not single."""
        return len(self.single) - sum(self.single)

    def _values(self, given: str) -> list[str]:
        """Values of the parameters, in order; `given` shows those that are not single."""
        places = iter(range(sum(self.single))), iter(range(self.num_given))
        return [
            f"p[{next(places[0])}]" if single else given.format(next(places[1]))
            for single in self.single
        ]

    def wrappers(self, k: int) -> str:
        """Return functions of one group of kind `k`, with its numbers in global memory."""
        vector, n = f"real{self.width}", self.num_states
        prefix = self.name if self.width == 1 else f"{self.name}__v{self.width}"
        values = [*self._values("given[{}]"), *(f"c[{i}]" for i in range(self.num_constants))]
        states, noise = [f"s[{i}]" for i in range(n)], ["noise"] if self.uses_noise else []
        where = f"__global const real *p, const real *c, __global const {vector} *given, __global"
        text = ""
        if self.num_constants:
            single = [v for v in values if v.startswith("p[")]
            results = [f"c + {i}" for i in range(self.num_constants)]
            text += (
                f"static void constants_{k}(const real dt, __global const real *p, real *c)\n"
                f"{{\n    {self.name}_constants({', '.join(['dt', *single, *results])});\n}}\n\n"
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
                f"    {where} {vector} *s)\n{{\n{self._loads(vector, states)}"
                f"{folded(f'    {prefix}_advance({given});')}\n{self._stores(states)}}}\n"
            )
        return text + (self._event(k) if self.takes_events else "")

    def _event(self, k: int) -> str:
        """Return the function of an event of one lane."""
        w = self.width
        states = [f"s[{f'{i * w} + ' if i else ''}lane]" for i in range(self.num_states)]
        pointers = [f"&s{i}" for i in range(self.num_states)]
        given = ", ".join(["weight", *self._values(f"given[{{}} * {w} + lane]"), *pointers])
        return (
            f"\nstatic void event_{k}(const real weight, const int lane, __global const real *p,\n"
            f"    __global const real *given, __global real *s)\n{{\n"
            f"{self._loads('real', states)}{folded(f'    {self.name}_event({given});')}\n"
            f"{self._stores(states)}}}\n"
        )

    @staticmethod
    def _loads(kind: str, states: list[str]) -> str:
        return "".join(f"    {kind} s{i} = {state};\n" for i, state in enumerate(states))

    @staticmethod
    def _stores(states: list[str]) -> str:
        return "".join(f"    {state} = s{i};\n" for i, state in enumerate(states))


def grouped_kind_spec(kind: Kind, real: str, width: int) -> GroupedKindSpec:
    """Return what a template needs to know of a kind whose instances it takes in groups.

    Parameters
    ----------
    kind : Kind
    real : str
        ``double`` or ``float``.
    width : int
    """
    check_parameters(kind, np.dtype(np.float32 if real == "float" else np.float64))
    plain = kind_spec(kind, real)
    names = [n for n, s in zip(kind.mechanism.parameters, plain.single, strict=True) if s]
    functions, constants = kind.mechanism.grouped(real, width, names)
    values = {field.name: getattr(plain, field.name) for field in fields(plain)}
    values |= {"functions": functions, "width": width, "num_constants": len(constants)}
    return GroupedKindSpec(**values)


def kind_spec(kind: Kind, real: str) -> KindSpec:
    """Return what a template needs to know of a kind.

    Parameters
    ----------
    kind : Kind
    real : str
        ``double`` or ``float``.
    """
    mechanism = kind.mechanism
    return KindSpec(
        name=mechanism.name,
        functions=mechanism.functions(real),
        single=tuple(np.ndim(kind.parameters[name]) == 0 for name in mechanism.parameters),
        num_states=len(mechanism.states),
        takes_events=mechanism.takes_events,
        uses_noise=mechanism.uses_noise,
        density=mechanism.kind == "density",
    )


def check_parameters(kind: Kind, dtype: np.dtype) -> None:
    """Check that a precision has the parameters of a kind.

    Raises
    ------
    InputError
        A parameter would be infinite.
    """
    for name, value in kind.parameters.items():
        largest = float(np.abs(value).max(initial=0.0))
        if largest > float(np.finfo(dtype).max):
            raise InputError(
                f"{kind.mechanism.name}: {name} is {largest:g}; expected at most "
                f"{np.finfo(dtype).max:.3g}, the largest number of {np.dtype(dtype).name}"
            )


def parameter_array(kind: Kind, dtype: np.dtype) -> np.ndarray:
    """(m,) of a dtype: the parameters of a kind as kernels take them; one value at least."""
    check_parameters(kind, dtype)
    values = [kind.parameters[name] for name in kind.mechanism.parameters]
    ordered = [v for v in values if np.ndim(v) == 0] + [v for v in values if np.ndim(v)]
    return np.concatenate([np.zeros(0), *(np.atleast_1d(v) for v in ordered or [0.0])]).astype(
        dtype
    )


def model_kinds(model: Model, real: str) -> tuple[tuple[KindSpec, ...], str]:
    """Return what templates take of a model's kinds, and the source of noise if one needs it."""
    kinds = tuple(kind_spec(kind, real) for kind in model.kinds)
    return kinds, normal_source(real) if any(k.uses_noise for k in kinds) else ""
