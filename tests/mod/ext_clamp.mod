: a current clamp whose amplitude is played
NEURON {
    POINT_PROCESS ext_clamp
    ELECTRODE_CURRENT i
    RANGE amp, i
}
PARAMETER { amp = 0 (nA) }
ASSIGNED { i (nA) }
BREAKPOINT { i = amp }
