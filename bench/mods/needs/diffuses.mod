: A substance that diffuses along a neurite and decays.
NEURON { SUFFIX diffuses RANGE D, rate, start }
PARAMETER { D = 0.5 rate = 0.1 start = 1 }
ASSIGNED { diam (um) }
STATE { c }
INITIAL { c = start }
BREAKPOINT { SOLVE along METHOD sparse }
KINETIC along {
    COMPARTMENT diam*diam {c}
    LONGITUDINAL_DIFFUSION D*diam*diam {c}
    ~ c << (-rate*c*diam*diam)
}
