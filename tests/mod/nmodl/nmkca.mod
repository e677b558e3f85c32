TITLE a potassium current that calcium opens
NEURON {
    SUFFIX nmkca
    USEION ca READ cai
    USEION k READ ek WRITE ik
    RANGE gbar, oinf, rest
}
PARAMETER { gbar = 1e-3 }
ASSIGNED { v ik ek cai oinf rest }
STATE { o }
INITIAL {
    VERBATIM
    cai = _ion_cai;
    rest = _ion_cai;
    ENDVERBATIM
    oinf = hill(cai)
    o = oinf
}
BREAKPOINT {
    SOLVE states METHOD cnexp
    ik = gbar*o*(v - ek)
}
DERIVATIVE states {
    oinf = hill(cai)
    o' = (oinf - o)/5
}
FUNCTION hill(c) { hill = c^2/(c^2 + 4e-7) }
