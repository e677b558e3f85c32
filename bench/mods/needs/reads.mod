: A current by the gate of another mechanism.
NEURON { SUFFIX reads NONSPECIFIC_CURRENT i POINTER gate RANGE g }
PARAMETER { g = 1e-5 }
ASSIGNED { v (mV) i (mA/cm2) gate }
BREAKPOINT { i = g*gate*(v + 65) }
