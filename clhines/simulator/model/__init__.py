"""What a network becomes: one `Model`, the arrays that engines take.

Who owns what
    `compiling`: `compile`, from a `Network` to its `Model`, made lazily of copies. `model`: `Model`
    and `Kind`, all instances of one mechanism, ions, everything that sends events, connections with
    exact times; `instances` makes kinds of groups, and sums mechanisms that are constant.
    `deliveries`: which events act in whole steps; `connections`: the connections that do.
    `pointers`: where pointers lead. `diffusion`: trees of instances between which states diffuse.
    `layers`: nodes around others, and the step that solves for these. `needs`: what a network asks
    of an engine. `schema`: the fields of a saved state, which files, ranks, copies and NEURON's
    values go through; a field more is an array more in all.

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

To add what a user may say: `simulator.network`; its arrays: a field of `Model`, made in
`compiling`.
"""

from clhines.simulator.model.compiling import compile
from clhines.simulator.model.model import Kind, Model

__all__ = ["Kind", "Model", "compile"]
