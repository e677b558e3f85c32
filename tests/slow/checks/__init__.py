"""Independent checks against NEURON; `command` runs them, one module for each subject."""
