: a TABLE after DEPEND of what each instance has for itself
NEURON { SUFFIX ref_table  NONSPECIFIC_CURRENT i  RANGE half }
PARAMETER { half = -40 }
ASSIGNED { v i open }
BREAKPOINT { rates(v)  i = 1e-4*open*(v + 60) }
PROCEDURE rates(u) {
    TABLE open DEPEND half FROM -100 TO 100 WITH 200
    open = 1/(1 + exp((half - u)/9))
}
