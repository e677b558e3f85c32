: a point process with a table
NEURON { POINT_PROCESS ext_funpoint  NONSPECIFIC_CURRENT i  RANGE s }
ASSIGNED { v i s }
FUNCTION_TABLE inf(v (mV))
BREAKPOINT { s = inf(v)  i = s*(v + 60) }
