: a synapse whose events read a parameter
NEURON { POINT_PROCESS ext_gain NONSPECIFIC_CURRENT i RANGE gain, g, tau, seen, last }
PARAMETER { gain = 1 tau = 5 (ms) }
ASSIGNED { v (mV) i (nA) seen last (ms) }
STATE { g (uS) }
INITIAL { g = 0 seen = 0 last = -1 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*v }
DERIVATIVE states { g' = -g/tau }
NET_RECEIVE(w) {
    g = g + w*gain
    seen = seen + gain
    last = t
}
