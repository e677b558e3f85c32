: keeps what it has set outside and what has flowed: rejected
NEURON {
    SUFFIX ext_outkept
    RANGE amp, total
    POINTER im, ex
}
PARAMETER { amp = 3 }
ASSIGNED { im ex total }
INITIAL {
    ex = 0
    total = 0
}
BEFORE BREAKPOINT {
    if (t > 1) { ex = amp }
}
AFTER SOLVE {
    total = total + im
}
