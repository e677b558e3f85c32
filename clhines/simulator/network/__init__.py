"""Networks as users describe them, in NumPy only; `simulator.model` makes arrays from them.

Words: a *group* has one mechanism's instances from one call of `insert` or `add`. A *density*
mechanism covers the nodes' membrane, a *point* mechanism sits at a node. A *source* is a cell that
spikes; a *target* is an instance that receives events. Units are NEURON's: mV, ms, nA, µS and nF at
nodes, S/cm² and mA/cm² in the membrane.

Modules
    `network`: `Network`. `groups`: `Group`, and `Inside`, a network's parts for other modules.
    `wiring`: connections and external events. `pairs`: connections by a rule, with random values:
    `Pairs`, `Drawn`. `plasticity`: `Rule` and `STDP`. `times`: delays and event times in steps,
    rounded as in NEURON. `changes`: new values in a simulation. `copies`: copies of a network in
    one network. `structure`: all cells' compartments; nodes by cell and region, values by cell,
    node or distance. `additions`: detectors, spike trains, artificial cells, ions, pointers,
    played parameters. `stored`: networks in files.

Three cells; cells 0 and 1 excite cells 1 and 2:

>>> import clhines
>>> cable = clhines.discretise(clhines.sample_cells()[0], max_length=20)  # µm
>>> net = clhines.Network([cable], num_cells=3)
>>> pas = net.insert("pas", g=1e-4, e=-65.0)  # S/cm², mV; everywhere
>>> synapses = net.add("expsyn", at=net.soma, tau=2.0)  # ms; one per cell
>>> net.connect([0, 1], synapses, index=[1, 2], weight=0.01, delay=1.0)  # µS, ms
Connections(2 to expsyn × 3; weight 0.01, delay 1 ms)

All checks happen here, so a wrong network is rejected before a device is used:

>>> try:
...     net.connect([0], synapses, index=[3], weight=0.01, delay=1.0)
... except clhines.InputError as error:
...     print("rejected")
rejected

To add a mechanism: see `simulator.mechanisms`. To add a built-in plasticity rule: its text in
`RULES` of `plasticity`, and Brian's weights in
``tests/simulator/mechanisms/text/brian_program.py``.

An importer makes a `Network` from arrays (`of_arrays`, `Axis`), adds groups of any kind
(`put_group`), sets values that no method of `Network` sets (`inside`), and copies the network
(`copies_of`).
"""

from clhines.simulator.cells.cable import Axis
from clhines.simulator.network.additions import Sources
from clhines.simulator.network.copies import copies_of, in_blocks
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.stored import put_group
from clhines.simulator.network.structure import of_arrays

__all__ = [
    "Axis",
    "Group",
    "Network",
    "Sources",
    "copies_of",
    "in_blocks",
    "inside",
    "of_arrays",
    "put_group",
]
