: a pool of calcium whose file has no RANGE: hoc sees no variable of it
NEURON { SUFFIX ext_bare  USEION ca READ ica, cai WRITE cai }
PARAMETER { tau = 5 (ms)  rest = 1e-4 (mM) }
ASSIGNED { ica (mA/cm2)  diam (um)  depth (um)  shares[2] }
STATE { cai (mM) }
INITIAL {
    depth = 0.02*diam
    shares[0] = 0.25 + diam/100
    shares[1] = 1 - shares[0]
}
BREAKPOINT { SOLVE states METHOD cnexp }
DERIVATIVE states {
    cai' = -shares[0]*10000*ica/(2*96485.33*depth) + shares[1]*(rest - cai)/tau
}
