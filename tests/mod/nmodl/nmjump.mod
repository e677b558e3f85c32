TITLE state_discontinuity in BREAKPOINT, of a state from itself, from v and in a loop
NEURON {
    POINT_PROCESS nmjump
    RANGE i, del, each, many, share, seen
    NONSPECIFIC_CURRENT i
}
PARAMETER { del = 2 (ms) each = 3.3 (ms) many = 3 share = 0.6 }
ASSIGNED { v (millivolt) i (nanoamp) }
STATE { g left seen }
INITIAL { g = 0 left = 1 seen = 0 }
BREAKPOINT {
    SOLVE states METHOD cnexp
    FROM k = 0 TO many - 1 {
        if (at_time(k*each + del)) {
            state_discontinuity(g, g + 4*left)
            state_discontinuity(left, left*share)
        }
    }
    if (at_time(del)) { state_discontinuity(seen, 1e6*v) }
    i = 1e-3*g*v
}
DERIVATIVE states {
    g' = -g/1.5
    left' = (1 - left)/20
    seen' = 0
}
