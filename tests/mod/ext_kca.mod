: potassium that calcium opens
NEURON {
    SUFFIX ext_kca
    USEION k READ ek WRITE ik
    USEION ca READ cai
    RANGE gbar
}
PARAMETER { gbar = 1e-3 (S/cm2) }
ASSIGNED { v (mV) ek (mV) ik (mA/cm2) cai (mM) }
BREAKPOINT { ik = gbar*cai/(cai + 1e-3)*(v - ek) }
