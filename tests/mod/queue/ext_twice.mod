: writes an ion's current and has a block behind the states, which adds it up once more in NEURON
NEURON { SUFFIX ext_twice USEION ca READ eca WRITE ica RANGE seen }
ASSIGNED { v (mV) eca (mV) ica (mA/cm2) seen }
BREAKPOINT { ica = 1e-5*(v - eca) }
AFTER SOLVE { seen = v }
