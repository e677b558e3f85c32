"""Simulate one network on several MPI processes.

`mpi` has collectives and errors of ranks. `partition` divides the cells of a network among ranks;
`described` collects facts of networks whose ranks describe their own cells. `exchange` exchanges
spikes in whole steps or at exact times; `run` advances a rank's cells.

An importer makes `Ranks` of the `world`, raises errors on all ranks (`agreed`), and joins the
ranks' networks by numbered sources (`joints`). If all ranks share one GPU, rank 0 advances the
cells of all (`one_device`): `joining` makes one network of theirs, and `parts` divides its states.
"""

from clhines.simulator.ranks.exchange import NO_WORDS
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks, world

__all__ = ["NO_WORDS", "ONE_PROCESS", "Joints", "Ranks", "world"]
