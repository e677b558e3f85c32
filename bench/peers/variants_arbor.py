"""A generation of variants in Arbor, on its threads or on a GPU, for `bench variants`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench import neurons, record
from bench.peers import variants
from bench.peers.arbor import context_of, segments
from bench.peers.cells_arbor import CHANNELS


def _cell(arbor: Any, tree: Any, values: Sequence[float], amp: float, stop: float) -> Any:
    units, decor = arbor.units, arbor.decor()
    decor.set_property(
        Vm=neurons.V_INIT * units.mV,
        cm=0.01 * units.F / units.m2,
        rL=100 * units.Ohm * units.cm,
        tempK=(273.15 + neurons.CELSIUS) * units.Kelvin,
    )
    for ion, reversal in (("na", neurons.E_NA), ("k", neurons.E_K), ("ca", neurons.E_CA)):
        decor.set_ion(ion, rev_pot=reversal * units.mV)
    varied = dict(zip(variants.VARIED, values, strict=True))
    for channel, by_region in neurons.NEURONS[variants.CELL].densities.items():
        name, parameter = CHANNELS[channel]
        for region, density in by_region.items():
            value = varied.get((channel, region), density)
            decor.paint(f"(tag {region})", arbor.density(name, {parameter: value}))
    begin, duration = variants.window(stop)
    clamp = arbor.i_clamp(begin * units.ms, duration * units.ms, amp * units.nA)
    decor.place("(on-components 0.5 (tag 1))", clamp)
    return arbor.cable_cell(tree, decor, arbor.label_dict(), arbor.cv_policy_every_segment("(all)"))


def _recipe(arbor: Any, sets: np.ndarray, stop: float) -> Any:
    cable, protocols = neurons.cable_of(variants.CELL), len(variants.AMPS)
    region = neurons.regions(cable)
    tree = segments(arbor, cable, lambda s, k: int(region[cable.first_node[s] + k]))

    class Variants(arbor.recipe):
        def __init__(self) -> None:
            arbor.recipe.__init__(self)
            self.properties = arbor.neuron_cable_properties()
            catalogue = arbor.default_catalogue()
            catalogue.extend(arbor.bbp_catalogue(), "")
            self.properties.catalogue = catalogue

        def num_cells(self) -> int:
            return len(sets) * protocols

        def cell_kind(self, gid: int) -> Any:
            return arbor.cell_kind.cable

        def cell_description(self, gid: int) -> Any:
            number, protocol = divmod(gid, protocols)
            return _cell(arbor, tree, sets[number].tolist(), variants.AMPS[protocol], stop)

        def global_properties(self, kind: Any) -> Any:
            return self.properties

        def probes(self, gid: int) -> list[Any]:
            return [arbor.cable_probe_membrane_voltage("(on-components 0.5 (tag 1))", "v")]

    return Variants()


def main(arguments: Sequence[str]) -> None:
    """Simulate ``COUNT STOP cpu|gpu`` and write a `variants.Generation` to ``FILE``."""
    count, stop, where, path = int(arguments[0]), float(arguments[1]), *arguments[2:]
    import arbor

    units, start, cores = arbor.units, time.perf_counter(), record.cores()
    recipe = _recipe(arbor, variants.sets(count), stop)
    context = context_of(arbor, cores, where == "gpu")
    balance = arbor.partition_load_balance(recipe, context)
    simulation = arbor.simulation(recipe, context, balance)
    schedule = arbor.regular_schedule(neurons.DT * units.ms)
    cells = range(recipe.num_cells())
    handles = [simulation.sample((gid, "v"), schedule) for gid in cells]
    made, used = time.perf_counter(), time.process_time()
    simulation.run(stop * units.ms, neurons.DT * units.ms)
    rows = [simulation.samples(handle)[0][0] for handle in handles]
    length = min(len(row) for row in rows)
    t, v = rows[0][:length, 0], np.stack([row[:length, 1] for row in rows])
    done, used = time.perf_counter(), time.process_time() - used
    features, seconds = variants.timed_features(v.reshape(count, -1, length), t, stop)
    variants.Generation(
        f"Arbor {arbor.__version__}",
        "GPU" if where == "gpu" else f"{cores} threads",
        made - start,
        done - made,
        seconds,
        used,
        features,
        ["dendrites begin at the end of the soma, not at its middle"],
    ).write(path)
