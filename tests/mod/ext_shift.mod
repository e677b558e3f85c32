: TABLEs that NEURON makes again where a DEPEND differs, which each step sets from a POINTER
NEURON { SUFFIX ext_shift  NONSPECIFIC_CURRENT i  RANGE g, slope, shift, minf  POINTER mu }
PARAMETER { g = 1e-4 (S/cm2)  slope = 9 (mV)  half = -40 (mV)  q = 2 }
ASSIGNED { v (mV)  i (mA/cm2)  minf  tau (ms)  shift (mV)  mu (mV) }
STATE { m }
INITIAL {
    rates(v)
    m = minf
    shift = 0
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    i = g*m*wide(v)*(v + 50)
    shift = 0.2*(mu + 65)
}
DERIVATIVE s {
    rates(v)
    m' = (minf - m)/tau
}
PROCEDURE rates(v (mV)) {
    LOCAL a
    TABLE minf, tau DEPEND shift, slope FROM -90 TO 30 WITH 97
    a = exp(-(v - half - shift)/slope)
    minf = 1/(1 + a)
    if (v - shift < -50) {
        tau = q
    } else {
        tau = q/(1 + 0.1*a) + wide(v)
    }
}
FUNCTION wide(v (mV)) {
    TABLE DEPEND shift FROM -80 TO 20 WITH 33
    wide = 1 + ((v - shift)/100)^2
}
