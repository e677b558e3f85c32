"""Other solvers (`host`, `cuda`, `jaxley`) and simulators (`ring`, `neuron`, `arbor`, `jaxley`)."""
