TITLE tables of a procedure and of a function
NEURON {
    SUFFIX nmtable
    RANGE gbar, i, minf, mtau, f
    GLOBAL slope
    NONSPECIFIC_CURRENT i
    THREADSAFE
}
PARAMETER { gbar = 3e-4 slope = 7 celsius }
ASSIGNED { v i minf mtau f }
STATE { m }
INITIAL { rates(v) m = minf f = 0 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    f = curve(v/10)
    i = gbar*m*(v + 80) + 1e-4*f
}
DERIVATIVE states {
    rates(v)
    m' = (minf - m)/mtau
}
PROCEDURE rates(u (mV)) {
    TABLE minf, mtau DEPEND celsius, slope FROM -70 TO 30 WITH 77
    minf = 1/(1 + exp(-(u + 40)/slope))
    mtau = (1 + 5*exp(-((u + 50)/20)^2))*3^((6.3 - celsius)/10)
}
FUNCTION curve(x) {
    TABLE FROM -6.5 TO 3 WITH 50
    curve = sin(x) + x*x/9
}
