"""Simulate one network on several MPI processes (ranks).

`mpi` has collectives, and raises errors on all ranks. `partition` divides a network's cells among
ranks. `exchange` exchanges spikes in whole steps or events at exact times; `run` advances a rank's
cells.

An importer makes `Ranks` from the `world`, raises errors on all ranks (`agreed`), and joins the
ranks' networks by numbered sources (`joints`). If all ranks share one GPU, rank 0 advances all
ranks' cells (`one_device`): `joining` makes one network from theirs, and `parts` divides that
network's state.
"""

from clhines.simulator.ranks.exchange import NO_WORDS
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world

__all__ = ["NO_WORDS", "ONE_PROCESS", "Joints", "Ranks", "world"]
