: a conductance that fluctuates: each instance draws from NEURON's one generator in each step
NEURON { SUFFIX nmfluct  NONSPECIFIC_CURRENT i  RANGE g, sigma, tau, rare, jumps, m }
UNITS { (mV) = (millivolt)  (mA) = (milliamp)  (S) = (siemens) }
PARAMETER { sigma = 1e-5 (S/cm2)  tau = 5 (ms)  rare = 0 }
ASSIGNED { v (mV)  dt (ms)  i (mA/cm2)  g (S/cm2)  jumps }
STATE { m }
INITIAL { g = 1e-4*scop_random()  jumps = 0  m = exprand(0.1) }
BREAKPOINT {
    SOLVE fluctuate
    SOLVE states METHOD cnexp
    i = g*(v + 60) + 1e-3*m
}
DERIVATIVE states { m' = (normrand(0.5, 0.1) - m)/tau }
PROCEDURE fluctuate() {
    g = g + dt*(1e-4 - g)/tau + sqrt(dt)*normrand(0, sigma)
    if (rare > 0) { jumps = jumps + rare*draw() + (exprand(1) > 2) }
}
FUNCTION draw() { draw = scop_random() }
PROCEDURE sow(x) { set_seed(x) }
