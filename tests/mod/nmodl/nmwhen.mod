TITLE BEFORE and AFTER
NEURON {
    SUFFIX nmwhen
    RANGE n, s, b, first, last, i
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i n s b first last dt }
STATE { m }
INITIAL { n = 0 s = 0 b = 0 m = first }
BEFORE INITIAL { first = v/10 }
AFTER INITIAL { last = m + 1 }
BEFORE STEP { s = s + v*t }
BEFORE BREAKPOINT { b = b + v*dt }
AFTER SOLVE { n = n + m*v }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = 1e-5*(v + 60) + 1e-7*b
}
DERIVATIVE states { m' = -m/4 }
