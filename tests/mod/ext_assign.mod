: sets variables of others by POINTERs, one in each step and one now and then, before these are called
NEURON { POINT_PROCESS ext_assign  RANGE phase, rate  POINTER out, level }
PARAMETER { rate = 1 }
ASSIGNED { v (mV) out level phase }
INITIAL { phase = 0  level = 0.5 }
BREAKPOINT { SOLVE say }
PROCEDURE say() {
    phase = phase + rate
    out = 0
    if (phase > 7) {
        phase = phase - 7
        out = 0.0005 + 1e-6*(v + 65)
        level = level + 0.25
    }
}
