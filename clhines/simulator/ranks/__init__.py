"""One network on several MPI processes.

`mpi`: collectives, errors of ranks. `partition`: which rank has which cells, and its share of the
network; `described`: what ranks have to know of others that describe their own cells. `exchange`:
what they exchange between steps, in whole steps or at exact times; `run`: advance a rank's cells.

An importer on ranks of its own makes `Ranks` of the `world`, raises errors on all (`agreed`), and
joins its network to those of other ranks by numbered sources (`joints`). If all ranks share one
GPU, rank 0 takes the steps of all (`one_device`): `joining` makes one network of theirs, and
`parts` takes its states apart.
"""

from clhines.simulator.ranks.exchange import NO_WORDS
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world

__all__ = ["NO_WORDS", "ONE_PROCESS", "Joints", "Ranks", "world"]
