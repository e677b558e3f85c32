: an electrode with two currents
NEURON { POINT_PROCESS ref_clamp  ELECTRODE_CURRENT i, j  RANGE amp, i, j }
PARAMETER { amp = 0.1 (nA) }
ASSIGNED { i (nA)  j (nA) }
BREAKPOINT { i = amp  j = 2*amp }
