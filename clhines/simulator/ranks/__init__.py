"""Simulate one network on several MPI processes.

`mpi` has collectives and errors of ranks. `partition` divides the cells of a network among ranks;
`described` collects the facts of networks of which each rank describes its own cells. `exchange`
exchanges spikes in whole steps or at exact times; `run` advances a rank's cells.

An importer makes `Ranks` of the `world`, raises errors on all ranks (`agreed`), and joins its
network to those of other ranks by numbered sources (`joints`). If all ranks share one GPU, rank 0
advances the cells of all (`one_device`): `joining` makes one network of theirs, and `parts` divides
its states.
"""

from clhines.simulator.ranks.exchange import NO_WORDS
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world

__all__ = ["NO_WORDS", "ONE_PROCESS", "Joints", "Ranks", "world"]
