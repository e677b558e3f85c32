TITLE tables that DEPEND on what INITIAL sets, and that later blocks alone use
NEURON {
    SUFFIX nmdepend
    RANGE i
    NONSPECIFIC_CURRENT i
}
PARAMETER { celsius scale = 0.7 half = -40 }
ASSIGNED { v i x warm minf }
STATE { m }
INITIAL {
    warm = 273.15 + celsius
    half = half0()
    m = 0.1
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    x = driving(v)
    i = 1e-4*m*x
}
DERIVATIVE states {
    rates(v)
    m' = minf - m
}
FUNCTION half0() { half0 = -70*scale }
FUNCTION driving(v) {
    TABLE DEPEND warm FROM -150 TO 100 WITH 100
    driving = 300*v/warm + 50*exp(-23*v/warm/100)
}
PROCEDURE rates(v) {
    TABLE minf DEPEND half FROM -150 TO 100 WITH 100
    minf = 1/(1 + exp(-(v - half)/9))
}
