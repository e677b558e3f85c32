"""Random models in NEURON's memory, run by NEURON and by this package."""
