TITLE Calcium below the membrane, after Destexhe, Mainen and Sejnowski (1994)

NEURON {
    SUFFIX ca_pool
    USEION ca READ ica WRITE cai
    RANGE gamma, depth, decay, rest
}

UNITS {
    (mA) = (milliamp)
    (mM) = (milli/liter)
    (um) = (micron)
}

PARAMETER {
    gamma = 0.05
    depth = 0.1 (um)
    decay = 80 (ms)
    rest = 1e-4 (mM)
}

ASSIGNED { ica (mA/cm2) }

STATE { cai (mM) }

INITIAL { cai = rest }

BREAKPOINT { SOLVE states METHOD cnexp }

UNITSOFF
DERIVATIVE states { cai' = -(10000)*(ica*gamma/(2*96485.33212*depth)) - (cai - rest)/decay }
UNITSON
