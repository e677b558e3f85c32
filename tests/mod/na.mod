: a sodium current that is called like its ion
NEURON {
    SUFFIX na
    USEION na READ ena WRITE ina
    RANGE gbar, g, tau
}
PARAMETER { gbar = 1e-3 (S/cm2) celsius (degC) }
ASSIGNED { v (mV) ena (mV) ina (mA/cm2) g (S/cm2) tau (ms) minf }
STATE { m }
BREAKPOINT {
    SOLVE states METHOD cnexp
    g = gbar*m*m
    ina = g*(v - ena)
}
INITIAL { rates(v) m = minf }
DERIVATIVE states { rates(v) m' = (minf - m)/2 }
PROCEDURE rates(v (mV)) {
    TABLE minf DEPEND celsius FROM -100 TO 100 WITH 200
    tau = 2  : not in the table: of the instance for which NEURON fills it
    minf = 1/(1 + exp(-(v + 30)/8))
}
