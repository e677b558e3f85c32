: GLOBAL variables that INITIAL sets; a loop that carries a variable which nothing reads
NEURON {
    SUFFIX ext_common
    NONSPECIFIC_CURRENT i
    RANGE alpha, beta, count
    GLOBAL rinf, rtau
}
PARAMETER {
    alpha = 0.07 (/ms)
    beta = 0.03 (/ms)
    count = 3
}
ASSIGNED { v (mV) i (mA/cm2) rinf rtau (ms) }
STATE { r }
LOCAL last
INITIAL {
    rinf = alpha/(alpha + beta)
    rtau = 1/(alpha + beta)
    r = 0.1
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = 0
    FROM j = 1 TO count { i = i + share(j) }
}
DERIVATIVE states { r' = (rinf - r)/rtau }
FUNCTION share(j) (mA/cm2) {
    if (v > -75) {
        last = 0.0001*r*(v + 75)/j
        share = last
    } else {
        share = 0
    }
}
