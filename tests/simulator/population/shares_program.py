"""A population by the workers of mpi4py.futures, which start this: its arrays in a file."""

import sys
from pathlib import Path

import numpy as np
from mpi4py.futures import MPIPoolExecutor

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

if __name__ == "__main__":
    from populations import PARAMETERS, PROTOCOLS, SETS, model

    from clhines import Population

    with MPIPoolExecutor() as executor:
        many = Population(model(), PARAMETERS, PROTOCOLS, executor=executor)
        found = [many.evaluate(sets) for sets in (SETS, SETS[::-1])]
    np.savez(sys.argv[1], v=found[0].v, spike_time=found[0].spike_time, reversed=found[1].v)
