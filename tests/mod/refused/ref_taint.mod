: sets e_extracellular by what it reads of i_membrane: not supported
NEURON { SUFFIX ref_taint  POINTER im, ex }
ASSIGNED { im ex }
BEFORE BREAKPOINT { ex = 1000*im }
