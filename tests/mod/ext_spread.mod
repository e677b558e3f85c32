: calcium in the whole cross section, which diffuses along sections, from a source
NEURON {
    SUFFIX ext_spread
    USEION ca READ cai, ica WRITE cai
    RANGE D, source
}
UNITS {
    (mM) = (milli/liter)
    (mA) = (milliamp)
    FARADAY = (faraday) (10000 coulomb)
    PI = (pi) (1)
}
PARAMETER { D = 0.6 (um2/ms) source = 0 (mM um2/ms) }
ASSIGNED { diam (um) ica (mA/cm2) }
STATE { cai (mM) <1e-10> }
INITIAL { cai = 5e-5 }
BREAKPOINT { SOLVE conc METHOD sparse }
KINETIC conc {
    COMPARTMENT PI*diam*diam/4 {cai}
    LONGITUDINAL_DIFFUSION D*PI*diam*diam/4 {cai}
    ~ cai << (source - ica*PI*diam/(2*FARADAY))
}
