TITLE LINEAR, solved in each step
NEURON {
    SUFFIX nmlinear
    RANGE i, k, drive
    NONSPECIFIC_CURRENT i
}
PARAMETER { k = 2 }
ASSIGNED { v i drive }
STATE { xx yy zz }
INITIAL { SOLVE three }
BREAKPOINT {
    SOLVE three
    i = 1e-6*(xx + yy - zz)*(v + 60)
}
LINEAR three {
    LOCAL s
    s = v/50
    drive = xx/10
    ~ xx + yy + zz = k
    ~ 2*xx - yy = s
    ~ xx - s*yy + (3 + drive)*zz = 1
}
