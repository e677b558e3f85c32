TITLE a calcium current by Goldman, Hodgkin and Katz
NEURON {
    SUFFIX nmghk
    USEION ca READ cai, cao WRITE ica
    RANGE pbar, ica
}
UNITS { FARADAY = (faraday) (coulomb) R = (k-mole) (joule/degC) }
PARAMETER { pbar = 2e-4 celsius }
ASSIGNED { v ica cai cao }
STATE { m }
INITIAL { m = 1/(1 + exp(-(v + 30)/8)) }
BREAKPOINT {
    SOLVE states METHOD cnexp
    ica = pbar*m*m*ghk(v, cai, cao)
}
DERIVATIVE states {
    m' = (1/(1 + exp(-(v + 30)/8)) - m)/2
}
FUNCTION ghk(v, ci, co) {
    LOCAL z, eci, eco
    z = (1e-3)*2*FARADAY*v/(R*(celsius + 273.15))
    eco = co*efun(z)
    eci = ci*efun(-z)
    ghk = (.001)*2*FARADAY*(eci - eco)
}
FUNCTION efun(z) {
    IF (fabs(z) < 1e-4) { efun = 1 - z/2 } ELSE { efun = z/(exp(z) - 1) }
}
