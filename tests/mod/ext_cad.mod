: a pool of calcium under the membrane
NEURON {
    SUFFIX ext_cad
    USEION ca READ ica, cai WRITE cai
    RANGE depth, tau, rest
}
PARAMETER { depth = 0.1 (um) tau = 20 (ms) rest = 1e-4 (mM) }
ASSIGNED { ica (mA/cm2) drive }
STATE { cai (mM) }
BREAKPOINT { SOLVE states METHOD cnexp }
INITIAL { cai = rest }
DERIVATIVE states {
    drive = -10000*ica/(2*96485.33*depth)
    if (drive < 0) { drive = 0 }
    cai' = drive + (rest - cai)/tau
}
