: a generator that sets a variable of a synapse by a POINTER, from NEURON's one generator
NEURON { POINT_PROCESS ext_poisson  RANGE on, off, likely, rarely, size, drawn  POINTER out }
PARAMETER { on = 2 (ms)  off = 8 (ms)  likely = 0.2  rarely = 0.02  size = 0.0005 }
ASSIGNED { out drawn }
INITIAL { drawn = 0 }
BREAKPOINT { SOLVE say }
PROCEDURE say() {
    out = 0
    if (t >= on && t < off) {
        drawn = scop_random()
        if (drawn < likely) { out = size }
    } else {
        drawn = 2*scop_random()
        if (drawn < 2*rarely) { out = size }
    }
}
