TITLE what flows in, in an IF, which is there where its branch is taken
NEURON {
    SUFFIX nmeither
    RANGE i, inflow, taken
    NONSPECIFIC_CURRENT i
}
PARAMETER { inflow = 0.02 }
ASSIGNED { v i taken }
STATE { ca buf cb er[2] }
INITIAL { ca = 0.01 buf = 0.3 cb = 0.05 er[0] = 0.4 er[1] = 0.2 }
BREAKPOINT {
    SOLVE kin METHOD sparse
    i = 1e-4*(1 + cb)*(v + 60)
}
KINETIC kin {
    ~ ca << (inflow*(v + 90)/50)
    ~ ca + buf <-> cb (3, 0.1)
    FROM k = 0 TO 1 {
        if (v > -70) {
            taken = 0.3*er[k]*(1 - ca)
            ~ ca << (taken)
            ~ er[k] << (-taken)
        } else {
            taken = 0.02*cb
            ~ er[k] << (taken)
        }
    }
    if (ca > 0.05) {
        ~ ca << (-0.4*ca)
    }
    ~ er[0] <-> er[1] (0.02, 0.03)
}
