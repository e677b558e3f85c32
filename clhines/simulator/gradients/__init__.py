"""Gradients of whole simulations: derivatives of a loss of records.

The discretised program is differentiated, with spikes and events in the steps in which they came.
`trace` records the reference's calls; `adjoint` takes derivatives back along them, block by block,
by functions that `mechanisms.ir.adjoints` derives from the equations:

    forward     INITIAL > step 0 > step 1 > ... > rows of records > loss
    backward    start < state 0 < state 1 < ... < cotangents of rows

`by_reference` runs forward and back and keeps few states. On a device, `by_device` does so for a
network's copies, with the connections in `events`; `by_tangents` goes forward only, for few
parameters. `plan` lays the copies out, `kernels` has the spec. `quantities` lists the variables for
derivatives; `refused` rejects variables without one. `gradient` puts a loss between the run and the
way back. `clhines.torch` and `clhines.jax` pass record rows to these libraries; `outside` sets
their values.

Words: *derivatives* are of the loss, if nothing else is said. *Cotangents* are its derivatives with
respect to record rows, *seeds* to a block's results, *adjoints* to its inputs. To *take back* a
computation is to turn the derivatives with respect to its results into derivatives with respect to
its inputs (reverse mode). On a device a *slot* holds one state, with a row for each *entry* (a
voltage, state or ion variable); *lanes* are the network's copies.
"""
