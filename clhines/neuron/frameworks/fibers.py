"""PyFibers' `ScaledStim.run_sim`, whose loop sets `e_extracellular` by Python code in each step.

While the switch is on, Vectors play the potentials instead, and `psolve` takes all steps between
two calls of the script's `exit_func`. PyFibers itself prepares the run, and counts action
potentials afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from clhines.core.arrays import half_steps
from clhines.core.errors import SimulationError
from clhines.neuron.frameworks import private
from clhines.neuron.memory.raw import ref

MOST = 1 << 25  # potentials for all sections and steps, 256 MB; above, PyFibers' own loop runs
_NAN = "NaN detected in fiber potentials."  # PyFibers' message


def run_sim(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Run a fiber with one stimulus amplitude, in place of PyFibers' `ScaledStim.run_sim`."""
    from neuron import h
    from pyfibers import ScaledStim

    call = signature(original).bind(*arguments, **named)
    call.apply_defaults()
    options = call.arguments
    stim, fiber = options["self"], options["fiber"]
    is_variable, ranks = h.CVode().active(), h.ParallelContext().nhost()
    prepare, stop, steps = stim.pre_run_setup, stim.tstop, stim.n_timesteps
    update = "update_extracellular"  # a subclass may apply potentials in its own way
    is_own = private(stim, update) is not private(ScaledStim, update)
    fits = 0 < steps * len(fiber.sections) <= MOST and _ends_at_zero(stim)
    if is_variable or ranks > 1 or is_own or "pre_run_setup" in vars(stim) or not fits:
        return original(*arguments, **named)

    def prepare_and_run(*first: Any, **others: Any) -> None:
        """Prepare the run and take all its steps; PyFibers' loop then has none left."""
        amplitudes = np.broadcast_to(np.array(options["stimamp"]), len(fiber.potentials))
        potentials = private(stim, "potentials_at_time")
        rows = [potentials(fiber, amplitudes, k * stim.dt) for k in range(steps)]
        players = [h.Vector(column) for column in np.transpose(rows)]
        try:
            for section, player in zip(fiber.sections, players, strict=True):
                player.play(ref(section(0.5), "e_extracellular"), stim.dt)
            prepare(*first, **others)
            for section, value in zip(fiber.sections, rows[0], strict=True):
                section(0.5).e_extracellular = value  # the event at 0 ms came before
            _advance(stim, fiber, steps, options)
        finally:
            for player in players:
                player.play_remove()
        vars(stim)["_tstop"] = 0.0  # its setter would cut waveforms that are arrays

    stim.pre_run_setup = prepare_and_run
    try:
        return original(*arguments, **named)
    finally:
        del stim.pre_run_setup
        vars(stim)["_tstop"] = stop


def _ends_at_zero(stim: Any) -> bool:
    """Whether the steps that PyFibers takes before 0 ms deliver no event that is due after 0 ms."""
    count = int(abs(stim.t_init_ss) / stim.dt_init_ss) + 1
    halves = half_steps(-abs(stim.t_init_ss), stim.dt_init_ss, 2 * count)
    middles = halves[1::2][halves[:-1:2] < 0]
    return bool((middles < stim.dt / 2).all())


def _advance(stim: Any, fiber: Any, steps: int, options: dict[str, Any]) -> None:
    """Take `steps` steps; end early if `exit_func` returns true or at PyFibers' exit time."""
    from neuron import h

    context = h.ParallelContext()
    context.set_maxstep(stim.tstop)  # psolve() needs one
    clock = half_steps(0.0, stim.dt, 2 * steps)[::2]
    interval = options["exit_func_interval"] * stim.dt
    step, last, next_check = 0, steps, interval
    if options["use_exit_t"] and (exit_t := private(stim, "exit_t")):
        last = min(last, max(1, int(np.searchsorted(clock, exit_t))))
    while step < last:
        step = min(last, max(step + 1, int(np.searchsorted(clock, next_check))))
        try:
            context.psolve(clock[step])
        except SimulationError as error:
            raise RuntimeError(_NAN) from error
        if np.isnan([section.v for section in fiber.sections]).any():
            raise RuntimeError(_NAN)
        if clock[step] < next_check:
            continue
        arguments = fiber, options["ap_detect_location"]
        if options["exit_func"](*arguments, **options["exit_func_kws"] or {}):
            return
        next_check += interval
