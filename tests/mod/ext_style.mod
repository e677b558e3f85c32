: draws normal numbers in one of two styles, which a static variable of C says for all instances
NEURON { POINT_PROCESS ext_style  NONSPECIFIC_CURRENT i  RANGE g, tau, amp  THREADSAFE  BBCOREPOINTER rng }
UNITS { (mV) = (millivolt)  (nA) = (nanoamp)  (uS) = (microsiemens) }
PARAMETER { tau = 3 (ms)  amp = 1e-3 (uS) }
ASSIGNED { v (mV)  i (nA)  g (uS)  rng }
VERBATIM
static int bias;
ENDVERBATIM
VERBATIM
#if NRNBBCORE
#define STYLE(arg) arg
#else
static int style; /* 1: of a Random, 2: of a stream */
#define STYLE(arg) if (style == 2) { arg }
#endif
ENDVERBATIM
INITIAL {
    VERBATIM
    if (_p_rng) {
        STYLE(nrnran123_setseq((nrnran123_State*)_p_rng, 0, 0);)
    }
    ENDVERBATIM
    g = 0
    net_send(0.1, 1)
}
BREAKPOINT { i = g*(v + 20) }
FUNCTION normal(mean, std) {
VERBATIM
    if (_p_rng) {
        double x;
#if !NRNBBCORE
        if (style == 2) {
            x = nrnran123_normal((nrnran123_State*)_p_rng);
        } else {
            x = nrn_random_pick((Rand*)_p_rng);
        }
#else
        #pragma acc routine(nrnran123_normal) seq
        x = nrnran123_normal((nrnran123_State*)_p_rng);
#endif
        if (bias == 1) { x = x + 0.5; }
        x = _lmean + _lstd*x;
        return x;
    }
#if !NRNBBCORE
ENDVERBATIM
    normal = normrand(mean, std)
VERBATIM
#endif
ENDVERBATIM
}
NET_RECEIVE(w) {
    g = g*exp(-0.1/tau) + normal(0, amp)
    net_send(0.1, 1)
}
PROCEDURE setBias(x) {
VERBATIM
    bias = (int)_lx;
ENDVERBATIM
}
PROCEDURE ofRandom() {
VERBATIM
    style = 1;
    *((Rand**)(&_p_rng)) = nrn_random_arg(1);
ENDVERBATIM
}
PROCEDURE ofStream() {
VERBATIM
    nrnran123_State** own = (nrnran123_State**)(&_p_rng);
    style = 2;
    *own = nrnran123_newstream3((uint32_t)*getarg(1), (uint32_t)*getarg(2), 7);
ENDVERBATIM
}
VERBATIM
static void bbcore_write(double*, int*, int*, int*, _threadargsproto_) {}
static void bbcore_read(double*, int*, int*, int*, _threadargsproto_) {}
ENDVERBATIM
