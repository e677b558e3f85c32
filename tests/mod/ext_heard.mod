: has variables that POINTERs of others set: one that it sets itself, and a parameter
NEURON { POINT_PROCESS ext_heard  NONSPECIFIC_CURRENT i  RANGE stim, gain, g, got }
PARAMETER { stim = 0  gain = 1 }
ASSIGNED { v (mV) i (nA) got }
STATE { g }
INITIAL { g = 0  got = 0 }
BREAKPOINT {
    SOLVE take
    i = 0.1*gain*g*v
}
PROCEDURE take() {
    g = 0.95*g + stim
    stim = 0
}
NET_RECEIVE(w) { got = got + w*gain }
