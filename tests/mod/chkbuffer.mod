: DERIVATIVE with derivimplicit: calcium and a buffer, coupled and not linear.
NEURON { SUFFIX chkbuffer  NONSPECIFIC_CURRENT i  RANGE g, e, kon, koff, bt, rest, tau, influx }
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) (mM) = (milli/liter) }
PARAMETER {
    g = 0.002 (S/cm2)  e = -90 (mV)  kon = 500 (/mM/ms)  koff = 0.5 (/ms)  bt = 0.05 (mM)
    rest = 0.0001 (mM)  tau = 5 (ms)  influx = 0.01 (mM/ms)
}
ASSIGNED { v (mV)  i (mA/cm2) }
STATE { ca (mM) cb (mM) }
INITIAL { ca = rest  cb = 0.002 }
BREAKPOINT { SOLVE states METHOD derivimplicit  i = g*ca/(ca + 0.001)*(v - e) }
DERIVATIVE states {
    ca' = influx/(1 + exp(-(v + 40)/5)) - (ca - rest)/tau - kon*ca*(bt - cb) + koff*cb
    cb' = kon*ca*(bt - cb) - koff*cb
}
