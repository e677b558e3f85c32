"""One network on several MPI processes.

`mpi`: collectives, errors of ranks. `partition`: which rank has which cells, and its share of the
network; `described`: what ranks have to know of others that describe their own cells. `split`:
advance and exchange, whole steps or exact times; also networks that each rank describes itself.

An importer on ranks of its own makes `Ranks` of the `world`, raises errors on all (`agreed`), and
joins its network to those of other ranks (`Joints`), which a `JoinedRun` advances.
"""

from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world
from clhines.simulator.ranks.split import NO_WORDS, JoinedRun, Joints

__all__ = ["NO_WORDS", "ONE_PROCESS", "JoinedRun", "Joints", "Ranks", "world"]
