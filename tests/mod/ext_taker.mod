: EXTERNAL variables
NEURON { SUFFIX ext_taker  NONSPECIFIC_CURRENT i  RANGE seen  EXTERNAL size_ext_outer, drive_ext_outer }
ASSIGNED { v i seen }
STATE { m }
INITIAL { m = size_ext_outer  seen = 0 }
BREAKPOINT {
    SOLVE s METHOD cnexp
    seen = drive_ext_outer
    i = 1e-5*size_ext_outer*m
}
DERIVATIVE s { m' = (drive_ext_outer - m)/2 }
