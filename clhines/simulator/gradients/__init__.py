"""Gradients of whole simulations: derivatives of a loss of records.

The discretised program is differentiated, with spikes and events in the steps in which they came.
`trace` records the calls of the reference; `adjoint` takes derivatives back along them, block by
block, by functions that `mechanisms.ir.adjoints` derives from the equations:

    forward     INITIAL > step 0 > step 1 > ... > rows of records > loss
    backward    start < state 0 < state 1 < ... < cotangents of rows

`by_reference` runs forward and back and keeps few states. On a device, `by_device` does so for
copies of a network, with the connections of `events`; `by_tangents` goes forward only, for few
parameters. `plan` lays the copies out, `kernels` has the spec. `quantities` lists the variables of
derivatives; `refused` rejects variables without one. `gradient` puts a loss between the run and the
way back. `clhines.torch` and `clhines.jax` pass rows of records to these libraries; `outside` sets
their values.

Words: *derivatives* are of the loss, if nothing else is said. *Cotangents* are its derivatives with
respect to rows of records, *seeds* to results of a block, *adjoints* to its inputs. To *take back*
a computation is to turn the derivatives with respect to its results into those with respect to its
inputs (reverse mode). On a device a *slot* holds one state, with a row for each *entry* (a voltage,
state or ion variable); *lanes* are copies of the network.
"""
