"""Copies of a neuron in Arbor, with its `bbp` catalogue, for `bench.peers.cells`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import MissingError, neurons
from bench.peers.arbor import context_of, segments
from bench.peers.cells import Case, Running
from bench.peers.ring import Clock
from clhines.simulator.cells.cable import Cable

CHANNELS = {  # ours -> Arbor's with the same equations, and the density's name
    "nata": ("NaTa_t", "gNaTa_tbar"),
    "nap": ("Nap_Et2", "gNap_Et2bar"),
    "kp": ("K_Pst", "gK_Pstbar"),
    "kt": ("K_Tst", "gK_Tstbar"),
    "skv": ("SKv3_1", "gSKv3_1bar"),
    "im": ("Im", "gImbar"),
    "ih": ("Ih", "gIhbar"),
    "cahva": ("Ca_HVA", "gCa_HVAbar"),
    "calva": ("Ca_LVAst", "gCa_LVAstbar"),
    "pas": (f"pas/e={neurons.E_PAS}", "g"),
}


def cell_of(arbor: Any, case: Case, cable: Cable) -> Any:
    neuron, units, region = neurons.NEURONS[case.cell], arbor.units, neurons.regions(cable)
    lacking = sorted(neuron.densities.keys() - CHANNELS)
    if lacking or neuron.tables:
        what = ", ".join(lacking) if lacking else "tables of rates"
        raise MissingError(f"its catalogue has no {what}")
    tree = segments(arbor, cable, lambda s, k: int(region[cable.first_node[s] + k]))
    decor = arbor.decor()
    decor.set_property(
        Vm=neurons.V_INIT * units.mV,
        cm=0.01 * cable.cm * units.F / units.m2,
        rL=cable.Ra * units.Ohm * units.cm,
        tempK=(273.15 + neurons.CELSIUS) * units.Kelvin,
    )
    for ion, e in (("na", neurons.E_NA), ("k", neurons.E_K), ("ca", neurons.E_CA)):
        decor.set_ion(ion, rev_pot=e * units.mV)
    for channel, by_region in neuron.densities.items():
        name, parameter = CHANNELS[channel]
        for number, value in by_region.items():
            decor.paint(f"(tag {number})", arbor.density(name, {parameter: value}))
    clamp = arbor.i_clamp(neurons.START * units.ms, 1e6 * units.ms, neuron.amp * units.nA)
    decor.place("(root)", clamp)
    decor.place("(root)", arbor.threshold_detector(neurons.THRESHOLD * units.mV), "detector")
    policy = arbor.cv_policy_every_segment("(all)")
    return arbor.cable_cell(tree, decor, arbor.label_dict(), policy)


def recipe_of(arbor: Any, case: Case, cell: Any) -> Any:
    catalogue = arbor.default_catalogue()
    catalogue.extend(arbor.bbp_catalogue(), "")

    class Copies(arbor.recipe):
        def __init__(self) -> None:
            arbor.recipe.__init__(self)
            self.cell, self.properties = cell, arbor.neuron_cable_properties()
            self.properties.catalogue = catalogue

        def num_cells(self) -> int:
            return case.copies

        def cell_kind(self, gid: int) -> Any:
            return arbor.cell_kind.cable

        def cell_description(self, gid: int) -> Any:
            return cell

        def global_properties(self, kind: Any) -> Any:
            return self.properties

        def probes(self, gid: int) -> list[Any]:
            return [arbor.cable_probe_membrane_voltage("(root)", "soma")]

    return Copies()


def arbor_on(case: Case, clock: Clock, gpu: bool) -> Running:
    import arbor

    unit = arbor.units.ms
    with clock.part("build"):
        recipe = recipe_of(arbor, case, cell_of(arbor, case, case.cable()))
    with clock.part("plan"):
        context = context_of(arbor, case.threads, gpu)
        balance = arbor.partition_load_balance(recipe, context)
        simulation = arbor.simulation(recipe, context, balance)
        simulation.record(arbor.spike_recording.all)
    times = arbor.explicit_schedule(
        [k * neurons.DT * unit for k in range(1, round(case.check / neurons.DT) + 1)]
    )
    handles = [simulation.sample((gid, "soma"), times) for gid in (0, case.copies - 1)]
    steps_done = 0

    def advance(steps: int) -> None:
        nonlocal steps_done
        steps_done += steps
        simulation.run(steps_done * neurons.DT * unit, neurons.DT * unit)

    def voltages() -> list[list[float]]:
        voltages_of = np.full((2, round(case.check / neurons.DT)), np.nan)
        for values, handle in zip(voltages_of, handles):
            ((samples, _),) = simulation.samples(handle)
            values[np.rint(samples[:, 0] / neurons.DT).astype(int) - 1] = samples[:, 1]
        lists: list[list[float]] = voltages_of.tolist()
        return lists

    return Running(
        name=f"Arbor {'GPU ' * gpu}{arbor.__version__}",
        where=f"{'the GPU and ' * gpu}{case.threads} threads",
        advance=advance,
        voltages=voltages,
        built=clock.parts,
        notes=[
            "channels of its catalogue bbp; dendrites begin at the end of the soma, not at its "
            "middle, and a compartment with a sample inside is one frustum between its ends; so "
            "its spikes are up to 0.2 ms from ours after a slow rise"
        ],
        keep=(recipe, context),
    )


arbor_host = partial(arbor_on, gpu=False)
arbor_gpu = partial(arbor_on, gpu=True)
