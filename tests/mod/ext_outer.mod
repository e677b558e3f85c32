: GLOBAL variables that another file uses: a number, and what BREAKPOINT sets
NEURON { SUFFIX ext_outer  NONSPECIFIC_CURRENT i  GLOBAL size, drive }
PARAMETER { size = 2 }
ASSIGNED { v i drive }
BREAKPOINT {
    drive = size*(v + 65)
    i = 1e-6*drive
}
