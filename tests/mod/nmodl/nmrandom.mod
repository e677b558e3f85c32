: every function of RANDOM, in each sort of block that may draw
NEURON {
    POINT_PROCESS nmrandom
    NONSPECIFIC_CURRENT i
    RANGE amp, twice, walk, u, n, e, word, unit, between, wide, mean, got, some
    RANDOM first, second
}
PARAMETER { amp = 0.02  twice = 0 }
ASSIGNED { v i walk u n e word unit between wide mean got some }
INITIAL {
    random_setseq(first, 5)
    u = random_uniform(first)
    walk = random_normal(second)
    n = 0  e = 0  word = 0  unit = 0  between = 0  wide = 0  mean = 0  got = 0  some = 0
}
BREAKPOINT {
    SOLVE move
    i = amp*(walk - 0.3*u) + twice*random_normal(second)
}
PROCEDURE move() {
    walk = 0.95*walk + random_normal(first)
    u = random_uniform(first) + drawn(2)
    if (u > 0.7) {
        wide = random_normal(first, 3, 0.5)
    } else {
        between = random_uniform(first, -2, 5)
    }
    some = drawn(u)
}
FUNCTION drawn(x) {
    drawn = 0
    if (x < 0.5) {
        drawn = random_negexp(second)
    }
}
BEFORE STEP {
    n = random_normal(second)
    e = random_negexp(second)
    mean = random_negexp(first, 4)
    unit = random_dpick(first)
    word = random_ipick(second)
}
NET_RECEIVE (w) {
    got = got + w*random_uniform(first)
    if (w > 2) {
        random_setseq(second, 8589934591.5)
    }
}
