"""Simulate one network on several MPI processes (ranks).

`mpi` has collectives, and raises errors on all ranks. `partition` divides the cells of a network
among ranks. `exchange` exchanges spikes in whole steps or events at exact times; `run` advances the
cells of a rank.

An importer makes `Ranks` of the `world`, raises errors on all ranks (`agreed`), and joins the
networks of ranks by numbered sources (`joints`). If all ranks share one GPU, rank 0 advances the
cells of all ranks (`one_device`): `joining` makes one network of theirs, and `parts` divides the
state of that network.
"""

from clhines.simulator.ranks.exchange import NO_WORDS
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world

__all__ = ["NO_WORDS", "ONE_PROCESS", "Joints", "Ranks", "world"]
