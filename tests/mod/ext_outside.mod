: sets e_extracellular and reads i_membrane by POINTERs, as xtra.mod of NEURON's authors
NEURON {
    SUFFIX ext_outside
    RANGE rx, er, start, rate
    GLOBAL is
    POINTER im, ex  : to i_membrane and e_extracellular
}
UNITS {
    (mV) = (millivolt)
    (um) = (micron)
}
PARAMETER {
    rx = 1 (megohm)
    start = 5 (ms)
    rate = 0 (/ms)
}
ASSIGNED {
    is (milliamp)
    ex (mV)
    im (milliamp/cm2)
    er (microvolt)
    area (um2)
}
INITIAL {
    ex = 0
    er = 0
}
BEFORE BREAKPOINT {
    ex = is*rx*1e6*(1 + rate*after(t - start))
}
AFTER SOLVE {
    er = 10*rx*im*area
}
FUNCTION after(by (ms)) (ms) {
    if (by > 0) { after = by } else { after = 0 }
}
