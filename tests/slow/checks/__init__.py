"""Independent checks against NEURON; `command` runs them, one module each for what is checked."""
