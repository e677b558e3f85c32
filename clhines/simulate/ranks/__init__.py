"""One network on several MPI processes.

`mpi`: collectives, errors of ranks. `partition`: which rank has which cells. `split`: advance and
exchange; `exchange`: spikes that come. With ions and exact delays: `exact_partition`,
`exact_split`.
"""
