: EXTERNAL variables, of which none is set in a step
NEURON { SUFFIX ext_alone  NONSPECIFIC_CURRENT i  RANGE seen  EXTERNAL size_ext_outer }
ASSIGNED { v i seen }
BREAKPOINT {
    seen = size_ext_outer*v
    i = 1e-6*seen
}
