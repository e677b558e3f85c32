TITLE VERBATIM that sets what is of an ion to the ion's value, as older files do
NEURON {
    SUFFIX nmagain
    USEION ca READ ica, cai WRITE cai
    RANGE start, seen, first, now, later
}
UNITS { (molar) = (1/liter) (mM) = (millimolar) (mV) = (millivolt) (mA) = (milliamp) }
PARAMETER { tau = 5 (ms) rest = 2e-4 (mM) gain = 0.05 }
ASSIGNED { v (mV) ica (mA/cm2) start (mM) seen (mM) first (mM) now (mM) later (mM) dt (ms) }
STATE { cai (mM) }
INITIAL {
    VERBATIM
    cai = _ion_cai;
    ENDVERBATIM
    start = cai
    cai = 3*cai
    VERBATIM
    first = 2*_ion_cai + cai;
    ENDVERBATIM
    seen = 0
}
BREAKPOINT {
    SOLVE change METHOD cnexp
    seen = seen + cai
    VERBATIM
    now = _ion_cai;
    ENDVERBATIM
}
DERIVATIVE change { look() cai' = -gain*ica + (rest - cai)/tau }
PROCEDURE look() {
    VERBATIM
    later = _ion_cai*2;
    ENDVERBATIM
}
