TITLE factors that the first INITIAL works out for all, beside an iteration
NEURON {
    SUFFIX nmonce
    RANGE i
    GLOBAL share
    NONSPECIFIC_CURRENT i
}
PARAMETER { total = 0.4 }
ASSIGNED { v i share[3] seen }
STATE { a b c }
LOCAL done
INITIAL {
    if (done == 0) {
        done = 1
        factors()
    }
    a = 0.1 + 0.1*seen
    b = 0.2
    c = 0.1
    SOLVE kin STEADYSTATE sparse
}
BREAKPOINT {
    SOLVE kin METHOD sparse
    i = 1e-4*(a + c)*(v + 60)
}
PROCEDURE factors() {
    share[0] = 0.5
    FROM k = 0 TO 1 {
        share[k] = share[k] + 0.1*k
        share[k + 1] = share[k]/2 + 0.3
    }
}
KINETIC kin {
    ~ a + b <-> c (share[0]*exp((v + 60)/40), share[1])
    CONSERVE a + c = total
    CONSERVE b + c = total*share[2]
    seen = a
}
