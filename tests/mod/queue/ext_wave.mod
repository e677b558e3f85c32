: a concentration that goes up and down in time
NEURON { SUFFIX ext_wave USEION ca READ cai WRITE cai RANGE size }
PARAMETER { size = 2 }
STATE { cai (mM) }
INITIAL { cai = 5e-5 }
BREAKPOINT { SOLVE state METHOD cnexp }
DERIVATIVE state { cai' = (5e-5 + 1e-4*size*(1 + sin(0.7*t)) - cai)/3 }
