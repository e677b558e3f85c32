"""The ring network in Arbor, on the host or on its GPU, for `bench.peers.ring`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench import MissingError, ring
from bench.peers.ring import CELSIUS, Case, Clock, Running, totals
from clhines.simulator.cells.cable import Cable


def segments(arbor: Any, cable: Cable, tag: Callable[[int, int], int]) -> Any:
    """Return Arbor's tree of a cell: one segment, and so one control volume, per compartment.

    Segments lie along one axis, as only their lengths and radii count; ``tag(s, k)`` is the tag of
    compartment k of section s.
    """
    ours = cable.sections
    tree, last = arbor.segment_tree(), []
    for s in range(ours.num_sections):
        points = slice(*ours.offsets[s : s + 2])
        cut = np.linspace(0.0, ours.length[s], cable.nseg[s] + 1)
        radius = np.interp(cut, ours.arc[points], ours.points[points, 3] / 2.0)
        above = last[ours.parent[s]] if s else arbor.mnpos
        ends = [arbor.mpoint(x, 0, 0, r) for x, r in zip(cut.tolist(), radius.tolist())]
        for k, (begin, end) in enumerate(zip(ends[:-1], ends[1:])):
            above = tree.append(above, begin, end, tag(s, k))
        last.append(above)
    return tree


def context_of(arbor: Any, threads: int, gpu: bool) -> Any:
    if gpu and not arbor.config()["gpu"]:
        raise MissingError("this Arbor has no GPU code")
    return arbor.context(threads=threads, gpu_id=0) if gpu else arbor.context(threads=threads)


def arbor_cell(arbor: Any, cable: Cable, hh_everywhere: bool) -> Any:
    units, tree = arbor.units, segments(arbor, cable, lambda s, k: 3 if s else 1)
    decor = arbor.decor()
    decor.set_property(
        Vm=ring.V_INIT * units.mV,
        cm=0.01 * cable.cm * units.F / units.m2,
        rL=cable.Ra * units.Ohm * units.cm,
        tempK=(273.15 + CELSIUS) * units.Kelvin,
    )
    if hh_everywhere:
        decor.paint("(all)", arbor.density("hh"))
    else:
        decor.paint("(tag 1)", arbor.density("hh"))
        passive = arbor.density(f"pas/e={ring.E_PAS}", {"g": ring.G_PAS})
        decor.paint("(tag 3)", passive)
    synapse = arbor.synapse("expsyn", {"tau": ring.TAU, "e": ring.REVERSAL})
    decor.place("(root)", synapse, "synapse")
    decor.place("(root)", arbor.threshold_detector(ring.THRESHOLD * units.mV), "detector")
    policy = arbor.cv_policy_every_segment("(all)")
    return arbor.cable_cell(tree, decor, arbor.label_dict(), policy)


def arbor_recipe(arbor: Any, case: Case, cables: list[Cable]) -> Any:
    units = arbor.units
    cells = [arbor_cell(arbor, cable, case.hh == "all") for cable in cables]

    class Ring(arbor.recipe):
        def __init__(self) -> None:
            arbor.recipe.__init__(self)
            self.cells, self.properties = cells, arbor.neuron_cable_properties()

        def num_cells(self) -> int:
            return case.cells

        def cell_kind(self, gid: int) -> Any:
            return arbor.cell_kind.cable

        def cell_description(self, gid: int) -> Any:
            return cells[gid % len(cells)]

        def global_properties(self, kind: Any) -> Any:
            return self.properties

        def connections_on(self, gid: int) -> list[Any]:
            source = ((gid - 1) % case.cells, "detector")
            return [arbor.connection(source, "synapse", ring.WEIGHT, ring.DELAY * units.ms)]

        def event_generators(self, gid: int) -> list[Any]:
            if gid:
                return []
            when = arbor.explicit_schedule([ring.START * units.ms])
            return [arbor.event_generator("synapse", ring.WEIGHT, when)]

    return Ring()


def arbor_on(case: Case, gpu: bool) -> Running:
    import arbor

    clock = Clock()
    cables = case.cables()
    with clock.part("build"):
        recipe = arbor_recipe(arbor, case, cables)
        nodes = [arbor.cv_data(cell).num_cv for cell in recipe.cells]
    with clock.part("plan"):
        context = context_of(arbor, case.threads, gpu)
        simulation = arbor.simulation(
            recipe, context, arbor.partition_load_balance(recipe, context)
        )
        simulation.record(arbor.spike_recording.all)
    unit, steps_done = arbor.units.ms, 0

    def advance(steps: int) -> None:
        nonlocal steps_done
        steps_done += steps
        simulation.run(steps_done * case.dt * unit, case.dt * unit)

    def spikes() -> tuple[np.ndarray, np.ndarray]:
        events = simulation.spikes()
        return events["time"], events["source"]["gid"].astype(int)

    return Running(
        name=f"Arbor {'GPU ' * gpu}{arbor.__version__}",
        where=f"{'the GPU and ' * gpu}{case.threads} threads",
        compartments=totals(case, cables),
        nodes=int(np.resize(nodes, case.cells).sum()),
        advance=advance,
        spikes=spikes,
        built=clock.parts,
        notes=[
            "dendrites begin at the end of the soma, not at its middle; a compartment with a "
            "sample inside is one frustum between its ends; times of spikes between steps"
        ],
    )


arbor_start = partial(arbor_on, gpu=False)
arbor_gpu = partial(arbor_on, gpu=True)
