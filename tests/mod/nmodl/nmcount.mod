TITLE a BREAKPOINT that changes what it reads, and sets v for itself
NEURON {
    SUFFIX nmcount
    RANGE calls, i, peak
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i calls peak }
INITIAL { calls = 0 peak = v }
BREAKPOINT {
    calls = calls + 1
    IF (v > peak) { peak = v }
    i = 1e-5*(v + 60) + 1e-9*calls*v
}
