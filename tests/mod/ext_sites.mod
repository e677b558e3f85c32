: several release sites: draws in loops whose ends depend on values
NEURON {
    POINT_PROCESS ext_sites
    NONSPECIFIC_CURRENT i
    RANGE tau, e, use, dep, sites, occupied, free, g, last, u
    POINTER rng
}
PARAMETER { tau = 2  e = 0  use = 0.4  dep = 8  sites = 4 }
ASSIGNED { v i rng occupied free last u room }
STATE { g }
VERBATIM
#include "nrnran123.h"
ENDVERBATIM
CONSTRUCTOR { room = 0.8 }
INITIAL { g = 0  occupied = sites  free = 0  last = 0  u = 0 }
BREAKPOINT { SOLVE decay METHOD cnexp  i = g*(v - e) }
DERIVATIVE decay { g' = -g/tau }
PROCEDURE setRNG() {
VERBATIM
    void** pv = (void**)(&_p_rng);
    *pv = nrn_random_arg(1);
ENDVERBATIM
}
FUNCTION urand() {
VERBATIM
    double value;
    if (_p_rng) {
        value = nrn_random_pick(reinterpret_cast<Rand*>(_p_rng));
        return value;
    } else {
ENDVERBATIM
        value = scop_random()
VERBATIM
    }
ENDVERBATIM
    urand = value
}
NET_RECEIVE (w) {
    LOCAL result, released, before
    FROM count = 0 TO (free - 1) {
        result = urand()
        if (result > exp(-(t - last)/dep)) {
            occupied = occupied + 1
        }
    }
    released = 0
    before = occupied - 1
    FROM count = 0 TO before {
        u = urand()
        if (u < use) {
            occupied = occupied - 1
            released = released + 1
        }
    }
    free = sites - occupied
    last = t
    g = g + w*released/sites*room
}
