TITLE calcium in a shell
NEURON {
    SUFFIX nmcad
    USEION ca READ ica, cai WRITE cai
    RANGE depth, tau
}
UNITS { FARADAY = (faraday) (coulomb) }
PARAMETER { depth = 0.1 tau = 20 cainf = 1e-4 }
ASSIGNED { v ica }
STATE { cai }
INITIAL { cai = cainf }
BREAKPOINT { SOLVE states METHOD derivimplicit }
DERIVATIVE states {
    cai' = -(10000)*ica/(2*FARADAY*depth) - (cai - cainf)/tau
}
