"""Make the spec of kernels on arenas from a model."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from clhines.simulator.kinds.kind import KindBlocks
from clhines.simulator.kinds.layouts import has_constants, loose_targets, num_active, num_sums
from clhines.simulator.kinds.played import plays_into_events
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.mechanisms.emit.noise import normal_source
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.text.language import Text
from clhines.simulator.model.model import ADVANCE_REVERSAL, Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.sources import has_second_round
from clhines.simulator.state.variables import Variables
from clhines.solver.plan.plan import real_name


def _regions(variables: Variables, arenas: dict[str, Arena]) -> dict[str, int]:
    model, wires = variables.model, variables.wires
    regions = {n: at for arena in arenas.values() for n, at in arena.offset.items()}
    for k, kind in enumerate(model.kinds):
        regions |= {f"count_{k}": kind.count, f"number_{k}": kind.first_instance}
        if model.of_last(k):
            regions |= {f"last_{k}": kind.last or 0, f"last_cell_{k}": model.last_cell(k)}
        if k in wires.first_target:
            regions[f"target_{k}"] = wires.first_target[k]
        if model.on_grid and kind.first_target >= 0:
            regions[f"sum_{k}"] = kind.first_target
    return regions | {
        "num_active": num_active(model),
        "num_played": len(model.played),
        "num_sums": num_sums(model),
        "num_loose": len(loose_targets(model, wires)),
    }


def spec_of(
    variables: Variables,
    arenas: dict[str, Arena],
    real: str,
    vector_bytes: int = 0,
    grouped: Container[int] = (),
) -> tuple[ArenaSpec, np.ndarray]:
    """Return the spec of kernels on `arenas`, and the argument ``at``: all regions' offsets.

    `real` is the type of reals, and vectors have `vector_bytes`, 0 for none. Mechanisms in
    `grouped` get no functions for vectors, because their engine prints its own.
    """
    model, regions = variables.model, _regions(variables, arenas)
    width = vector_bytes // arenas["mem"].dtype.itemsize or 1
    every = range(len(model.kinds))
    kinds = tuple(_blocks_of(variables, k, real, width, k in grouped) for k in every)
    is_split = variables.grid is not None and variables.grid.split  # ranks exchange its list
    noisy = any(a.role == "noise" for k in kinds for _, _, arguments in k.blocks for a in arguments)
    spec = ArenaSpec(
        real=real,
        instant=real_name(arenas["clock"].dtype),
        kinds=kinds,
        ions=tuple(ion.name for ion in model.ions),
        regions=tuple(regions),
        secondorder=model.secondorder,
        second_order_currents=model.second_order_currents,
        noise=normal_source(real) if noisy else "",
        layered=variables.wires.apart,
        nernst=tuple(ion.name for ion in model.ions if ((ion.style & ADVANCE_REVERSAL) > 0).any()),
        grid=model.on_grid or is_split,
        bins=(1 + has_second_round(model)) * model.bins,
        calls=vector_bytes > 0,
        width=width,
        played=bool(model.played),
        constant=has_constants(model),
        sets_v="set_voltages" in model.needs,
        sums=bool(model.written),
        steers=bool(model.steered),
        diffuses=bool(model.diffusions),
    )
    return spec, np.array([*regions.values()], np.int32)


_ON_DEVICE = (
    "current",
    "advance",
    "diffuse",
    "receive",
    "watch",
    "before_breakpoint",
    "after_solve",
    "before_step",
)


def _blocks_of(variables: Variables, k: int, real: str, width: int, grouped: bool) -> KindBlocks:
    model, outputs = variables.model, variables.declared(k)
    kind, more = model.kinds[k], (outputs,) if outputs else ()
    mechanism = kind.mechanism
    program = mechanism.program
    names = [b for b in program.blocks if b in _ON_DEVICE or b.startswith("for_netcons")]
    single = [n for n, alone in variables.singles[k] if alone]
    wide = [b for b in names if width > 1 and in_vectors(mechanism, b, outputs)]
    scalar = [b for b in names if b not in wide]
    if isinstance(mechanism.language, Text):
        scalar.insert(0, "initial")
    functions = [
        mechanism.functions(real, outputs, scalar),
        "" if grouped else mechanism.functions(real, outputs, wide, width, single),
    ]
    return KindBlocks(
        number=k,
        name=mechanism.name,
        functions="\n".join(f for f in functions if f),
        kind=mechanism.kind,
        blocks=tuple(
            (b, mechanism.function_name(b), tuple(mechanism.calls(b, *more))) for b in names
        ),
        parameters=tuple(variables.singles[k]),
        states=tuple(q.name for q in program.states),
        outputs=tuple(variables.wanted[k]),
        **_of_events(model, k),
        queue=len(variables.queues[k].time) if k in variables.queues else 0,
        emits=k in model.sources.emitted,
        ions=tuple(ion.name for ion in model.ions),
        vectors=tuple((b, f"{mechanism.name}__v{width}_{b}") for b in wide),
        rows=width > 1 and bool(np.diff(kind.node).all()),
        last=model.of_last(k),
        plays=k in variables.wires.first_target and plays_into_events(model, k),
        reads=tuple(name for kind_number, name in model.read if kind_number == k),
    )


def _of_events(model: Model, k: int) -> dict[str, Any]:
    mechanism = model.kinds[k].mechanism
    net = mechanism.program.net
    if net is None:
        return {}
    comes = bool(net.sends or net.watch_flags) or bool((model.netcons.kind == k).any())
    return {
        "weights": net.weights,
        "sends": net.sends,
        "watch_flags": net.watch_flags,
        "for_netcons": net.for_netcons,
        "has_net": comes and "receive" in mechanism.program.blocks,
        "summed": model.on_grid and net.summed and mechanism.kind != "artificial",
    }


def in_vectors(mechanism: Mechanism, block: str, outputs: Sequence[str] = ()) -> bool:
    """Whether a block, with its recorded `outputs`, can compute a vector of instances at once."""
    arguments = mechanism.program.blocks.get(block)
    if block not in ("current", "advance") or arguments is None:
        return False
    scalar = "noise", "pointer", "assign"  # need an address or a stream for each instance
    if any(a.role in scalar for a in arguments):
        return False
    ions = [a for a in arguments if a.role == "ion"]
    if block == "current":
        apart = all(a.direction != "inout" for a in ions)
    else:
        apart = mechanism.kind == "density" or all(a.direction == "in" for a in ions)
    return apart and mechanism.takes_vectors(block, outputs)
