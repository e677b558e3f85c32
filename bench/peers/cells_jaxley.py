"""Copies of a neuron in Jaxley, its channels made from our own texts, for `bench.peers.cells`.

Jaxley has channels as Python classes. `channel_class` makes one from a text of `bench.neurons`:
`ast` parses its expressions and JAX evaluates them, never `eval`. The rates of all these channels
are linear in their state and use Jaxley's own exponential step.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import MissingError, neurons
from bench.peers import ring as peer
from bench.peers.cells import Case, Running
from clhines.simulator.cells.cable import Cable

Values = dict[str, Any]
_LINE = re.compile(r"(state |current |parameter )?(d)?(\w+)(?:/dt)? = ([^\[]+)")
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
}


@dataclass(frozen=True)
class Statement:
    """A text line: its kind (``state``, ``rate``, ...), its variable, and the expression."""

    sort: str
    name: str
    value: ast.expr


def statements(text: str) -> Iterator[Statement]:
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match:
            sort, rate, name, value = match.groups()
            value = re.sub(r"\s(mV|S/cm2)\s*$", "", value.replace("^", "**"))
            kind = "rate" if rate and "/dt" in line.split("=")[0] else (sort or "value").strip()
            yield Statement(
                kind,
                name if kind == "rate" else (rate or "") + name,
                ast.parse(value.strip(), mode="eval").body,
            )


def worked_out(node: ast.expr, known: Values, jnp: Any) -> Any:
    """Return an expression's value."""

    def of(inner: ast.expr) -> Any:
        return worked_out(inner, known, jnp)

    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -of(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = of(node.left), of(node.right)
        whole = isinstance(node.op, ast.Pow) and isinstance(right, float) and right == int(right)
        return _BINARY[type(node.op)](left, int(right) if whole else right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
        return _BINARY[type(node.ops[0])](of(node.left), of(node.comparators[0]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = {"exp": jnp.exp, "where": jnp.where}.get(node.func.id)
        if function:
            return function(*map(of, node.args))
    raise MissingError(f"Jaxley: {ast.unparse(node)} is not translated")


def channel_class(base: Any, jnp: Any, name: str, text: str) -> Any:
    lines = list(statements(text))
    rates = {s.name: s.value for s in lines if s.sort == "rate"}
    parameters = {s.name: worked_out(s.value, {}, jnp) for s in lines if s.sort == "parameter"}

    def values(v: Any, params: Values, states: Values) -> Values:
        values_of = {"v": v, **states, **{p: params[f"{name}_{p}"] for p in parameters}}
        for line in lines:
            if line.sort in ("value", "current"):
                values_of[line.name] = worked_out(line.value, values_of, jnp)
        return values_of

    def named(states: Values) -> Values:
        return {x: states[f"{name}_{x}"] for x in rates}

    class Translated(base):
        def __init__(self) -> None:
            self.current_is_in_mA_per_cm2 = True
            super().__init__(name)
            self.channel_params = {f"{name}_{p}": value for p, value in parameters.items()}
            self.channel_states = {f"{name}_{x}": 0.0 for x in rates}
            self.current_name = f"i_{name}"

        def update_states(self, states: Values, dt: Any, v: Any, params: Values) -> Values:
            old = named(states)
            values_of = values(v, params, old)
            new = {}
            for x, rate in rates.items():
                still = worked_out(rate, {**values_of, x: 0.0}, jnp)
                slope = worked_out(rate, {**values_of, x: 1.0}, jnp) - still
                new[f"{name}_{x}"] = (old[x] + still / slope) * jnp.exp(slope * dt) - still / slope
            return new

        def compute_current(self, states: Values, v: Any, params: Values) -> Any:
            return values(v, params, named(states))["i"]

        def init_state(self, states: Values, v: Any, params: Values, delta_t: float) -> Values:
            values_of = values(v, params, dict.fromkeys(rates, 0.0))
            return {
                f"{name}_{s.name}": worked_out(s.value, values_of, jnp)
                for s in lines
                if s.sort == "state"
            }

    return Translated


def cell_of(jx: Any, jnp: Any, case: Case, cable: Cable) -> Any:
    """Return Jaxley's description for a neuron: a branch a section, cylinders."""
    neuron, region = neurons.NEURONS[case.cell], neurons.regions(cable)
    if neuron.from_files:
        raise MissingError("mechanisms of .mod files are not translated")
    from jaxley.channels import Channel, Leak

    counts, parent = cable.nseg, cable.sections.parent
    kinds = {n: jx.Branch(jx.Compartment(), ncomp=n) for n in set(counts.tolist())}  # each slow
    cell = jx.Cell([kinds[n] for n in counts.tolist()], parent.tolist())
    length = np.repeat(cable.sections.length / counts, counts)
    real = np.flatnonzero(cable.area > 0)
    cell.set("length", length)
    cell.set("radius", cable.area[real] / (2 * np.pi * length))
    cell.set("axial_resistivity", cable.Ra)
    cell.set("capacitance", cable.cm)
    cell.set("v", neurons.V_INIT)
    for channel, by_region in neuron.densities.items():
        if channel == "pas":
            made, density = Leak(), "Leak_gLeak"
        else:
            made = channel_class(Channel, jnp, channel, neurons.CHANNELS[channel])()
            density = f"{channel}_gbar"
        for number, value in by_region.items():
            here = np.flatnonzero(region[real] == number).tolist()
            cell.select(nodes=here).insert(made)
            cell.select(nodes=here).set(density, value)
            if channel == "pas":
                cell.select(nodes=here).set("Leak_eLeak", neurons.E_PAS)
    return cell


@dataclass
class Compiled(Running):
    """A simulation that compiles a loop for each step count, outside the clock for a piece."""

    prepared: Callable[[int], None] = print

    def prepare(self, steps: int) -> None:
        self.prepared(steps)


def jaxley(case: Case, clock: peer.Clock) -> Running:
    """Jaxley on the CPU: one neuron, its steps mapped over the copies in a compiled loop."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxley as jx
    from jax import numpy as jnp
    from jaxley.integrate import build_init_and_step_fn

    cable = case.cable()
    with clock.part("build"), peer.printed_to(sys.stderr):
        cell = cell_of(jx, jnp, case, cable)
        cell.branch(0).loc(0.5).stimulate(np.zeros(1))
        cell.init_states(delta_t=neurons.DT)
        cell.to_jax()
        init, step = build_init_and_step_fn(cell)
        states, params = init(cell.get_parameters(), delta_t=neurons.DT)
        states = jax.tree.map(lambda x: jnp.stack([x] * case.copies), states)
    inds = dict(cell.external_inds)
    soma = int(np.asarray(inds["i"]).reshape(-1)[0])
    amp, voltages = neurons.NEURONS[case.cell].amp, [np.zeros((2, 0))]

    def one(now: tuple[Any, Any], _: object) -> tuple[tuple[Any, Any], Any]:
        at, k = now
        on = (k + 1) * neurons.DT > neurons.START + 1e-9
        current = {"i": jnp.where(on, amp, 0.0) * jnp.ones(1)}
        at = jax.vmap(lambda x: step(x, params, current, inds, delta_t=neurons.DT))(at)
        return (at, k + 1), at["v"][jnp.array([0, -1]), soma]

    run = jax.jit(lambda now, n: jax.lax.scan(one, now, None, length=n), static_argnums=1)
    now = (states, jnp.zeros((), int))
    ready: dict[int, Any] = {}

    def prepare(steps: int) -> None:
        if steps not in ready:
            with clock.part("plan"):
                ready[steps] = run.lower(now, steps).compile()

    def advance(steps: int) -> None:
        nonlocal now
        now, v = ready[steps](now)
        voltages.append(np.asarray(v).T)

    on_gpu = jax.default_backend() == "gpu"
    return Compiled(
        prepared=prepare,
        name=f"Jaxley {'GPU ' if on_gpu else ''}{jx.__version__}",
        where=f"{jax.devices()[0].device_kind if on_gpu else 'CPU'}, JAX {jax.__version__}",
        advance=advance,
        voltages=lambda: np.concatenate(voltages, axis=1).tolist(),
        built=clock.parts,
        notes=[
            "one neuron, mapped over the copies; channels translated from the texts; cylinders "
            "with the areas of the others, dendrites that begin at the end of the soma, states "
            "before the voltages of a step"
        ],
    )


def jaxley_gpu(case: Case, clock: peer.Clock) -> Running:
    """Run the same on a GPU."""
    os.environ["JAX_PLATFORMS"] = "cuda,cpu"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if jax.default_backend() != "gpu":
        raise MissingError("this JAX has no GPU")
    return jaxley(case, clock)
