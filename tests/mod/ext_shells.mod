: calcium and a buffer in shells, both diffuse along sections, and a marker that does nothing else
NEURON {
    SUFFIX ext_shells
    USEION ca READ ica WRITE cai
    RANGE DCa, start, seen, half
    GLOBAL DBuf, vol
}
DEFINE N 3
UNITS {
    (mM) = (milli/liter)
    (mA) = (milliamp)
    FARADAY = (faraday) (10000 coulomb)
    PI = (pi) (1)
}
PARAMETER {
    DCa = 0.6 (um2/ms)
    DBuf = 0.05 (um2/ms)
    k1 = 100 (/mM-ms)
    k2 = 0.1 (/ms)
    total = 0.003 (mM)
    start = 5e-5 (mM)
    half = 0.5
}
ASSIGNED { diam (um) ica (mA/cm2) cai (mM) vol[N] seen (mM) }
STATE { ca[N] (mM) <1e-8> free[N] (mM) <1e-8> bound[N] (mM) <1e-8> marker (mM) }
LOCAL done, between[N]
INITIAL {
    if (done == 0) {
        done = 1
        geometry()
    }
    FROM i = 0 TO N-1 {
        ca[i] = start
        free[i] = total/(1 + k1/k2*start)
        bound[i] = total - free[i]
    }
    marker = start
    cai = ca[0]
    seen = 0
}
PROCEDURE geometry() {
    LOCAL r, dr
    r = 1/2
    dr = r/(N-1)/2
    vol[0] = 0
    between[0] = 2*r
    FROM i = 0 TO N-2 {
        vol[i] = vol[i] + PI*(r - dr/2)*2*dr
        r = r - dr
        between[i+1] = 2*PI*r/(2*dr)
        r = r - dr
        vol[i+1] = PI*(r + dr/2)*2*dr
    }
}
BREAKPOINT { SOLVE shells METHOD sparse }
LOCAL volume
KINETIC shells {
    COMPARTMENT i, square(diam)*vol[i] {ca free bound}
    COMPARTMENT half*PI*square(diam) {marker}
    LONGITUDINAL_DIFFUSION i, DCa*square(diam)*vol[i] {ca}
    LONGITUDINAL_DIFFUSION k, DBuf*diam*diam*vol[k] {free bound}
    LONGITUDINAL_DIFFUSION DCa*square(diam) {marker}
    ~ ca[0] << (-ica*PI*diam/(2*FARADAY))
    FROM i = 0 TO N-2 { ~ ca[i] <-> ca[i+1] (DCa*between[i+1], DCa*between[i+1]) }
    FROM i = 0 TO N-1 {
        volume = diam*diam*vol[i]
        ~ ca[i] + free[i] <-> bound[i] (k1*volume, k2*volume)
    }
    cai = ca[0]
}
FUNCTION square(x) { square = x*x }
AFTER SOLVE { seen = ca[0] + marker }
