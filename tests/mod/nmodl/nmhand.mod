TITLE a procedure that advances its states with dt, as older files do
NEURON {
    SUFFIX nmhand
    RANGE gbar, minf, mtau, i
    NONSPECIFIC_CURRENT i
}
PARAMETER { gbar = 2e-4 q = 3 celsius dt }
ASSIGNED { v i minf mtau mexp tadj }
STATE { m h }
LOCAL fac
INITIAL {
    tadj = q^((celsius - 6)/10)
    rates(v)
    m = minf
    h = 1 - minf
}
BREAKPOINT {
    SOLVE states
    i = gbar*m^3*h*(v + 80)
}
PROCEDURE states() {
    rates(v)
    m = m + mexp*(minf - m)
    h = h + fac*(1 - m - h)
    VERBATIM
    /* nothing */
    return 0;
    ENDVERBATIM
}
PROCEDURE rates(v) {
    IF (v == -38) { v = v + 0.0001 }
    minf = 1/(1 + exp(-(v + 38)/7))
    mtau = (1 + 10*trap(-(v + 38), 9))/tadj
    mexp = 1 - exp(-dt/mtau)
    fac = 1 - exp(-dt*tadj/12)
}
FUNCTION trap(x, y) {
    IF (fabs(x/y) < 1e-6) { trap = y*(1 - x/y/2) } ELSE { trap = x/(exp(x/y) - 1) }
}
