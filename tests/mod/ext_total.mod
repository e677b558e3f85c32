COMMENT
Has a variable to which others add, which a current needs, and sets and adds to a number.
ENDCOMMENT

NEURON {
    POINT_PROCESS ext_total
    RANGE total, kept, scale, seen
    POINTER whole
    NONSPECIFIC_CURRENT i
}

PARAMETER { scale = 1e-6 }

ASSIGNED {
    v (mV)
    i (nA)
    total (fA m)
    kept (fA m)
    whole (fA m)
    seen (fA m)
}

BREAKPOINT { i = scale*kept }

BEFORE INITIAL {
    total = 0
    kept = 0
    whole = 3
}

BEFORE BREAKPOINT {
    kept = 0.9*kept + total
    total = 0
    whole = 0.5*v
}

AFTER SOLVE {
    total = total + 0.25*v
    whole = whole + 0.125*v
}

AFTER INITIAL { total = total + 0.25*v }

BEFORE STEP { seen = v }
