"""`Model`: a network as arrays, for engines.

Who owns what
    `compiling` makes a `Model` from a `Network`. `model` has `Model`, `Kind`
    (all instances of one mechanism), ions, event sources, and connections with exact times.
    `instances` makes kinds from groups and sums constant mechanisms. `deliveries` selects the
    events that act in whole steps; `connections` has these events' connections. `pointers` has
    the pointers' targets, `diffusion` the trees of instances between which states diffuse,
    `layers` the nodes in extracellular layers and their step. `needs` lists the features that a
    network requires of an engine. `schema` has a saved state's fields, which files, ranks, copies
    and NEURON's values use: a new array is a new field.

>>> import clhines
>>> cable = clhines.discretise(clhines.sample_cells()[0], max_length=20)  # µm
>>> net = clhines.Network([cable], num_cells=3)
>>> pas = net.insert("pas", g=1e-4, e=-65.0)  # S/cm², mV; everywhere
>>> synapses = net.add("expsyn", at=net.soma, tau=2.0)  # ms; one per cell
>>> net.connect([0, 1], synapses, index=[1, 2], weight=0.01, delay=1.0)  # µS, ms
Connections(2 to expsyn × 3; weight 0.01, delay 1 ms)
>>> model = clhines.simulator.model.compile(net, dt=0.025)
>>> [kind.mechanism.name for kind in model.kinds]  # pas is constant: part of the matrix
['expsyn']
>>> model.connections.delay.tolist()  # steps
[40, 40]

To add a call for users, see `simulator.network`; the call's arrays become a field of `Model`, which
`compiling` makes.
"""

from clhines.simulator.model.compiling import compile
from clhines.simulator.model.model import Kind, Model

__all__ = ["Kind", "Model", "compile"]
