: CONDUCTANCE is the slope, though the current is not linear in v; states named as OpenCL's words;
: what an ion only gives may be set: others do not see it
NEURON {
    SUFFIX nmhint
    NONSPECIFIC_CURRENT i
    USEION k READ ek WRITE ik
    USEION na READ ena
    RANGE g, gk, half, kernel, x
}
PARAMETER { g = 0.0003 (S/cm2) }
ASSIGNED { v (mV) ek (mV) ena (mV) i (mA/cm2) ik (mA/cm2) gk gi x }
STATE { half kernel }
INITIAL { half = 0.1 kernel = 0.4 }
BREAKPOINT {
    LOCAL block
    CONDUCTANCE gi
    CONDUCTANCE gk USEION k
    CONDUCTANCE block
    SOLVE states METHOD cnexp
    gi = g*kernel/(1 + exp(-0.062*v)/3.57)
    gk = 0.5*g*half*(1 + v/200)
    block = g/9
    ik = gk*(v - ek)
    i = gi*(v + 20) + block*v
    ena = 40 + v/10
    x = half + ena
}
DERIVATIVE states {
    half' = (1/(1 + exp(-(v + 50)/7)) - half)/3
    kernel' = (half - kernel)/4
}
