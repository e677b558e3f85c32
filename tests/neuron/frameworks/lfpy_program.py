"""Probes of LFPy, filled by its own loop in NEURON and by the switch."""

import json
from pathlib import Path

import LFPy
import numpy as np

import clhines

STICK = str(Path(LFPy.__file__).parent / "test" / "stick.hoc")


def potentials(tstart, **options):
    """Return the data from an electrode and a dipole, and voltages."""
    cell = LFPy.Cell(
        STICK, v_init=-65.0, tstart=tstart, tstop=10.0, dt=2**-5, passive=True,
        nsegs_method="lambda_f", lambda_f=500,
        passive_parameters={"g_pas": 1 / 30000, "e_pas": -65.0},
    )  # fmt: skip
    synapse = LFPy.Synapse(cell, 2, "Exp2Syn", weight=0.01, tau1=0.5, tau2=2.0, e=0.0)
    synapse.set_spike_times(np.array([2.0, 7.3]))
    electrode = LFPy.RecExtElectrode(
        cell, x=np.array([10.0, 50.0]), y=np.full(2, 5.0), z=np.array([0.0, 100.0])
    )
    dipole = LFPy.CurrentDipoleMoment(cell)
    cell.simulate(probes=[electrode, dipole], rec_vmem=True, **options)
    return electrode.data, dipole.data, cell.vmem


rows, steps = [], []
for tstart in (0.0, -5.0):
    truth = potentials(tstart)
    with clhines.neuron.enable(when="always") as on:
        ours = potentials(tstart)
    steps.append(on.steps)
    rows += [
        [a.shape == b.shape, float(np.abs(a - b).max() / np.abs(a).max())]
        for a, b in zip(truth, ours, strict=True)
    ]
with clhines.neuron.enable(when="always") as on:
    potentials(0.0, variable_dt=True)
print(json.dumps({"rows": rows, "steps": steps, "variable": on.steps}))
