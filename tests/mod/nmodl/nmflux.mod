TITLE reactions that use a flux of before, which is worked out behind them
NEURON {
    SUFFIX nmflux
    RANGE i, last, inflow
    NONSPECIFIC_CURRENT i
}
PARAMETER { inflow = 0.02 }
ASSIGNED { v i last }
STATE { ca buf cb }
INITIAL { ca = 0.01 buf = 0.3 cb = 0.05 last = 0.006 }
BREAKPOINT {
    SOLVE kin METHOD sparse
    i = 1e-4*(1 + cb)*(v + 60)
}
KINETIC kin {
    ~ ca << (inflow*(v + 90)/50 - 0.6*last)
    ~ ca + buf <-> cb (3, 0.1)
    last = f_flux - b_flux + 0.2*ca
}
