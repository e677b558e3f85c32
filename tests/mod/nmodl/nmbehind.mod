TITLE derivimplicit with what its block sets behind the rates
NEURON {
    SUFFIX nmbehind
    RANGE i, rest, drive, held, bound
    NONSPECIFIC_CURRENT i
}
PARAMETER { bound = -60 }
ASSIGNED { v i rest drive held }
STATE { a b c }
INITIAL { a = 0.1 b = 0.2 c = 0.6 rest = 0.3 drive = 0.1 held = 0 }
BREAKPOINT {
    SOLVE states METHOD derivimplicit
    i = 1e-4*(a + b + c)*(v + 60)
}
DERIVATIVE states {
    a' = 0.5*(rest - a)
    b' = 0.2*(1 - b)*drive - 0.1*b
    c' = held - 0.3*c
    rest = 1/(1 + exp(-(v + 50)/8))
    drive = 0.1 + 0.4*b*b
    if (v > bound) { held = 0.01*(v + 90) }
}
