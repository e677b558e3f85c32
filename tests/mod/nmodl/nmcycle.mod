TITLE LINEAR whose equations are in another order than the unknowns
NEURON {
    SUFFIX nmcycle
    RANGE i, opens, blocks
    NONSPECIFIC_CURRENT i
}
PARAMETER { opens = 3 blocks = 0.7 }
ASSIGNED { v i a b }
STATE { c1 c2 o1 o2 s1 x1 x2 x3 y1 y2 y3 }
INITIAL { SOLVE turned SOLVE cancels SOLVE balance }
BREAKPOINT {
    SOLVE turned
    SOLVE cancels
    SOLVE balance
    i = 1e-6*(o1 + o2 + x1 - x2 + x3)*(v + 60)
}
LINEAR turned { : each unknown has one equation only, and none is its own
    ~ 2*x2 = v/50
    ~ x2 + 3*x3 = 1
    ~ x3 - 4*x1 = v/70
}
LINEAR cancels { : the diagonal is there, and is 0 once the first row is taken off
    ~ y1 + y2 = v/90
    ~ y1 + y2 + y3 = 3
    ~ y2 + y3 = blocks
}
LINEAR balance { : flows between states; their sum stands for one of them
    a = exp(v/40)
    b = exp(-v/60)
    ~ c1 + c2 + o1 + o2 + s1 = 1
    ~ c1*blocks + o2*b - s1*(0.1 + a) = 0
    ~ c2*b - c1*(a + blocks) + s1*0.1 = 0
    ~ c1*a + o1*b - c2*(b + a) = 0
    ~ c2*a + o2*blocks - o1*(b + opens) = 0
}
