: a release site, whose VERBATIM draws from a Random of hoc or a Random123 stream
NEURON {
    THREADSAFE
    POINT_PROCESS ext_release
    NONSPECIFIC_CURRENT i
    RANGE tau, e, u, use, dep, ready, g, released, last, drawn, again
    BBCOREPOINTER rng
}
PARAMETER { tau = 2  e = 0  use = 0.5  dep = 8  again = 1 }
ASSIGNED { v i rng usingR123 ready released last drawn }
STATE { g }
VERBATIM
#ifndef NRN_VERSION_GTEQ_8_2_0
double nrn_random_pick(void* r);
void* nrn_random_arg(int argpos);
#define RANDCAST
#else
#define RANDCAST (Rand*)
#endif
#include "nrnran123.h"
ENDVERBATIM
INITIAL {
    g = 0  ready = 1  released = 0  last = 0  drawn = 0
    VERBATIM
    if (usingR123 && again) {
        nrnran123_setseq((nrnran123_State*)_p_rng, 0, 0);
    }
    ENDVERBATIM
}
BREAKPOINT {
    SOLVE decay METHOD cnexp
    i = g*(v - e)
}
DERIVATIVE decay { g' = -g/tau }
PROCEDURE setRNG() {
VERBATIM
#ifndef CORENEURON_BUILD
    usingR123 = 0;
    if (ifarg(1) && hoc_is_double_arg(1)) {
        nrnran123_State** pv = (nrnran123_State**)(&_p_rng);
        if (*pv) {
            nrnran123_deletestream(*pv);
            *pv = (nrnran123_State*)0;
        }
        *pv = nrnran123_newstream3((uint32_t)*getarg(1), (uint32_t)*getarg(2), (uint32_t)*getarg(3));
        usingR123 = 1;
    } else if (ifarg(1)) {
        void** pv = (void**)(&_p_rng);
        *pv = nrn_random_arg(1);
    } else {
        void** pv = (void**)(&_p_rng);
        *pv = (void*)0;
    }
#endif
ENDVERBATIM
}
FUNCTION urand() {
VERBATIM
    double value = 0.0;
    if (usingR123) {
        value = nrnran123_dblpick((nrnran123_State*)_p_rng);
    } else if (_p_rng) {
#ifndef CORENEURON_BUILD
        value = nrn_random_pick(RANDCAST _p_rng);
#endif
    } else {
        value = 0.0;  // not used without a stream
    }
    _lurand = value;
ENDVERBATIM
    drawn = drawn + 1
}
NET_RECEIVE (w) {
    LOCAL survives
    if (!(w > 0)) {
VERBATIM
        return;
ENDVERBATIM
    }
    if (ready == 0) {
        survives = exp(-(t - last)/dep)
        if (urand() > survives) {
            ready = 1
        } else {
            last = t
        }
    }
    if (ready == 1 && urand() < use) {
        ready = 0
        last = t
        released = released + 1
        g = g + w
    }
}
VERBATIM
static void bbcore_write(double* x, int* d, int* xx, int* offset, _threadargsproto_) {}
static void bbcore_read(double* x, int* d, int* xx, int* offset, _threadargsproto_) {}
ENDVERBATIM
