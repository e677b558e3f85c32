"""One network on several MPI processes.

`mpi`: collectives, errors of ranks. `partition`: which rank has which cells, and its share of the
network; `described`: what ranks have to know of others that describe their own cells. `split`:
advance and exchange, whole steps or exact times; also networks that each rank describes itself.
"""
