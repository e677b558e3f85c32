"""Gradients of whole simulations: derivatives of a loss of records by parameters and more.

What is differentiated is the discretised program, with spikes and events in the steps in which they
came. Nothing is simulated twice in another way: `trace` notes the calls of the reference,
`adjoint` takes derivatives back along them, block by block, by functions that
`mechanisms.ir.adjoints` derives from the equations. `by_reference` runs forward and back with few
states kept. On a device `by_device` does so for copies of a network, with the connections of
`events`, or `by_tangents` goes forward, with few parameters; `plan` lays them out, and `kernels` is
the spec.
`quantities` says what there are derivatives by, `refused` what has none. `gradient` puts a loss
between the run and the way back. `clhines.torch` and `clhines.jax` give rows of records to these
libraries, with values that `outside` sets.

Words: the *derivatives by* something are those of the loss. Those by the rows of records are
*cotangents*, those by results of a block *seeds*, and *adjoints* those by what the block reads.
"""
