"""Gradients of copies of a neuron in Jaxley, in a process of its own.

    python -m bench peers.gradients_jaxley '{"cell": "l5pc", "copies": 9, "steps": 100}' out.json

The measure `gradients` starts this and defines the loss and the derivatives. States are kept every
square root of the number of steps (`jax.checkpoint`). `small` has the derivatives for the cable
`small_cable`, which both simulators compute in the same order.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench import neurons
from bench.peers.cells import Case
from bench.peers.cells_jaxley import cell_of, channel_class
from bench.peers.ring import printed_to

LENGTH, RADIUS, RA, AMP = 20.0, 3.0, 150.0, 0.4  # µm, µm, Ω·cm, nA
SMALL = {"nata": 0.3, "skv": 0.1, "ih": 1e-4}  # S/cm²
NODES, STEPS = 4, 400  # the small cable's size


def loss_of(jax: Any, cell: Any, current: Callable[[Any], Any], steps: int) -> Any:
    """Return the function densities -> mean square of the soma's voltages, and the densities."""
    from jaxley.integrate import build_init_and_step_fn

    jnp = jax.numpy
    cell.branch(0).loc(0.0).stimulate(np.zeros(1))
    cell.init_states(delta_t=neurons.DT)
    cell.to_jax()
    init, step = build_init_and_step_fn(cell)
    start, params = init(cell.get_parameters(), delta_t=neurons.DT)
    inds = dict(cell.external_inds)
    soma = int(np.asarray(inds["i"]).reshape(-1)[0])
    stretch = isqrt(steps)

    def loss(densities: Any) -> Any:
        parameters = {**params, **densities}

        def one(state: Any, k: Any) -> Any:
            state = step(state, parameters, {"i": current(k)}, inds, delta_t=neurons.DT)
            return state, state["v"][soma]

        many = jax.checkpoint(lambda state, numbers: jax.lax.scan(one, state, numbers))
        numbers = jnp.arange(steps).reshape(-1, stretch)
        _, v = jax.lax.scan(many, start, numbers)
        return (v**2).mean()

    names = [name for name in params if name.endswith(("_gbar", "_gLeak"))]
    return loss, {name: params[name] for name in names}


def small_cable(jx: Any, jnp: Any) -> Any:
    from jaxley.channels import Channel

    cell = jx.Cell([jx.Branch(jx.Compartment(), ncomp=NODES)], [-1])
    values = {"length": LENGTH, "radius": RADIUS, "axial_resistivity": RA, "capacitance": 1.0}
    for name, value in {**values, "v": neurons.V_INIT}.items():
        cell.set(name, value)
    for channel, density in SMALL.items():
        cell.insert(channel_class(Channel, jnp, channel, neurons.CHANNELS[channel])())
        cell.set(f"{channel}_gbar", density)
    return cell


def main(arguments: Sequence[str]) -> int:
    settings, out = json.loads(arguments[0]), Path(arguments[1])
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxley as jx

    jnp, amp = jax.numpy, neurons.NEURONS[settings["cell"]].amp
    with printed_to(sys.stderr):
        case = Case(settings["cell"], settings["copies"])
        cell, small = cell_of(jx, jnp, case, case.cable()), small_cable(jx, jnp)
        of_small, densities = loss_of(jax, small, lambda k: jnp.full(1, AMP), STEPS)
    by_small = jax.jit(jax.grad(of_small))(densities)

    def current(k: Any) -> Any:
        return jnp.where((k + 1) * neurons.DT > neurons.START + 1e-9, amp, 0.0) * jnp.ones(1)

    with printed_to(sys.stderr):
        loss, densities = loss_of(jax, cell, current, settings["steps"])
    copies = {name: jnp.stack([x] * settings["copies"]) for name, x in densities.items()}
    begin = time.perf_counter()
    gradient = jax.jit(jax.grad(lambda x: jax.vmap(loss)(x).mean())).lower(copies).compile()
    first, seconds = time.perf_counter() - begin, []
    for _ in range(2):
        begin = time.perf_counter()
        jax.block_until_ready(gradient(copies))
        seconds.append(time.perf_counter() - begin)
    device = jax.devices()[0]
    used = (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
    row = {
        "name": f"Jaxley {jx.__version__}, JAX {jax.__version__}, {device.device_kind}",
        "first": first,
        "gradient": min(seconds) / settings["steps"] * 1e6,
        "bytes": int(used),
        "small": {k.removesuffix("_gbar"): np.asarray(x).tolist() for k, x in by_small.items()},
    }
    out.write_text(json.dumps(row), "utf-8")
    return 0
