: a current whose rates come from tables, and blocks before and after steps
NEURON {
    SUFFIX ext_table
    NONSPECIFIC_CURRENT i
    RANGE gbar, steps, middles, seen, factor
}
PARAMETER { gbar = 2e-4 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) inf tau (ms) steps middles seen factor celsius (degC) }
STATE { n }
BREAKPOINT {
    SOLVE states METHOD cnexp
    i = gbar*n*factor*(v + 80)
}
INITIAL {
    rates(v)
    n = inf
    steps = 0
    middles = 0
    seen = 0
    factor = 1
}
DERIVATIVE states {
    rates(v)
    n' = (inf - n)/tau
}
PROCEDURE rates(v (mV)) {
    LOCAL q
    TABLE inf, tau DEPEND celsius FROM -100 TO 100 WITH 200
    q = 3^((celsius - 6.3)/10)
    inf = 1/(1 + exp(-(v + 45)/9))
    tau = (1 + 5*exp(-((v + 60)/30)^2))/q
}
BEFORE BREAKPOINT {
    middles = middles + 1
    factor = 1 + 0.1*sin(t)
}
BEFORE STEP { steps = steps + 1 }
AFTER SOLVE { seen = v }
