: GLOBALs that each instance sets in turn: BREAKPOINT what SOLVE reads, and the other way round
NEURON { SUFFIX nmlast  NONSPECIFIC_CURRENT i  RANGE g, half  GLOBAL minf, rise }
PARAMETER { g = 1e-4  half = -50 }
ASSIGNED { v i minf rise[2] }
STATE { m h }
INITIAL {
    minf = 1/(1 + exp(-(v - half)/9))
    m = minf
    FROM k = 0 TO 1 { rise[k] = k/7 }
    h = rise[1]
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    minf = 1/(1 + exp(-(v - half)/9))
    i = g*(m + h + rise[0])*(v + 60)
}
DERIVATIVE s {
    FROM k = 0 TO 1 { rise[k] = (k + 1)*exp(v/40) }
    m' = (minf - m)/3
    h' = (rise[0] - h)/5
}
