"""A cell whose negative weight makes its voltage run off and return: ``runaway_program.py``."""

import io
import json
import warnings
from contextlib import redirect_stderr

from support.mod_files import loaded

import clhines

h = loaded()
h.load_file("stdrun.hoc")
STOP, ENGINE = 30.0, "reference"


def built(weight):
    """Make two cells; only the one without the weight is recorded."""
    cells = [h.Section(name=name) for name in ("calm", "wild")]
    for cell in cells:
        cell.L = cell.diam = 18.8
        cell.insert("hh")
        cell.gl_hh = 0.003
    synapse, stim = h.Exp2Syn(cells[1](0.5)), h.NetStim()
    synapse.tau1, synapse.tau2 = 0.1, 0.5
    stim.number, stim.start = 1, 1
    netcon = h.NetCon(stim, synapse, 0, 1, weight)
    v = h.Vector().record(cells[0](0.5)._ref_v)
    pc, spikes = h.ParallelContext(), h.NetCon(cells[1](0.5)._ref_v, None, sec=cells[1])
    pc.set_gid2node(7, 0)
    pc.cell(7, spikes)
    return cells, synapse, stim, netcon, v, spikes


def ran(stops=(STOP,)):
    """Return the warnings of a run in pieces, and whether the voltage has returned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        h.finitialize(-65)
        for stop in stops:
            clhines.neuron.run(stop, engine=ENGINE)
    return [str(w.message) for w in caught]


def main():
    kept = built(-0.33)
    results = {"whole": ran(), "back": kept[0][1](0.5).v}
    results["pieces"] = ran([1.5, 3.5, 4, 10, STOP])
    kept[3].weight[0] = 0.33
    results["positive"] = ran()
    kept[3].weight[0] = -0.33
    results["changed"] = ran()
    said = io.StringIO()
    with warnings.catch_warnings(), redirect_stderr(said):
        warnings.filterwarnings("ignore")  # like NetPyNE during its import
        h.finitialize(-65)
        clhines.neuron.run(STOP, engine=ENGINE)
    results["ignored"] = said.getvalue().splitlines()
    kept[3].weight[0] = 0
    h.finitialize(-65)
    kept[0][0](0.5).v = -3e6  # a cell without synapses, but recorded
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clhines.neuron.run(STOP, engine=ENGINE)
    results["recorded"] = [str(w.message) for w in caught]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
