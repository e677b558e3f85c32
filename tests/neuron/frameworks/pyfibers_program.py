"""Runs of PyFibers by its own loop in NEURON, and by the switch."""

import json

import numpy as np
from pyfibers import FiberModel, ScaledStim, build_fiber

import clhines

fiber = build_fiber(FiberModel.MRG_INTERPOLATION, diameter=10.0, n_nodes=7)
fiber.potentials = np.array(
    [fiber.point_source_potentials(*at, fiber.length / 2, 1, 10) for at in ((0, 250), (90, 200))]
)
fiber.record_vm()


class Halved(ScaledStim):
    """Stimulus whose potentials are half as high."""

    @staticmethod
    def _update_extracellular(fiber, e_stims):
        ScaledStim._update_extracellular(fiber, 0.5 * np.asarray(e_stims))


def waves(t):
    return float(0.5 <= t < 0.6), 0.05 * np.sin(40 * t)


def stimulus(made=ScaledStim, **options):
    waveform = [lambda t: waves(t)[0], lambda t: waves(t)[1]]
    return made(waveform=waveform, dt=0.005, tstop=2.0, **options)


def run(amplitude, use_exit_t=0.0, stim=None, **options):
    """Return action potentials, and voltages in time of all nodes."""
    stim = stim or stimulus()
    stim._exit_t = use_exit_t
    count, time = stim.run_sim(
        amplitude, fiber, use_exit_t=bool(use_exit_t), fail_on_end_excitation=None, **options
    )
    voltages = np.array([np.array(one) for one in fiber.vm if one is not None])
    ends = fiber.sections[3](0.5).e_extracellular
    return np.array([count, -1 if time is None else time, ends]), voltages


def find(_):
    """Return a threshold, its action potentials, and the voltages of the last run."""
    amplitude, (count, time) = stimulus().find_threshold(
        fiber, stimamp_top=-1.0, stimamp_bottom=-0.3, fail_on_end_excitation=None
    )
    return np.array([amplitude, count, time]), np.array([np.array(one) for one in fiber.vm])


def failure():
    """Return the error of a run in which voltages become NaN."""
    fiber = build_fiber(FiberModel.SWEENEY, diameter=10.0, n_nodes=7)
    fiber.potentials = fiber.point_source_potentials(0, 250, fiber.length / 2, 1, 10)
    try:
        ScaledStim(lambda t: waves(t)[0], dt=0.005, tstop=1.0).run_sim(-300.0, fiber)
    except RuntimeError as error:
        return str(error)
    return ""


def first_spike(fiber, location, **_):
    return any(one.n for one in fiber.apc)


CASES = {
    "below": lambda: run(-0.2),
    "above": lambda: run([-2.0, -0.1]),
    "exit_func": lambda: run(-2.0, exit_func=first_spike, exit_func_interval=30),
    "each step": lambda: run(-2.0, exit_func=first_spike, exit_func_interval=1),
    "exit_t": lambda: run(-2.0, 0.9),
    "threshold": lambda: find(None),
    "own update": lambda: run(-2.0, stim=stimulus(Halved)),
    "late": lambda: run(-2.0, stim=stimulus(t_init_ss=-201.0, dt_init_ss=8.0)),
}
rows, steps = {}, {}
for name, case in CASES.items():
    truth = case()
    with clhines.neuron.enable(when="always") as on:
        ours = case()
    steps[name] = on.steps
    rows[name] = [
        truth[1].shape == ours[1].shape,
        truth[0].tolist(), ours[0].tolist(),
        float(np.abs(truth[1] - ours[1]).max()),
        truth[1].shape[1],
    ]  # fmt: skip
failures = [failure()]
with clhines.neuron.enable(when="always"):
    failures.append(failure())
print(json.dumps({"rows": rows, "steps": steps, "failures": failures}))
