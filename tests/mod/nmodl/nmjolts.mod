: a current whose size is drawn anew in each step, with those of other mechanisms in turn
NEURON { POINT_PROCESS nmjolts  ELECTRODE_CURRENT i  RANGE size, drawn }
UNITS { (nA) = (nanoamp) }
PARAMETER { size = 0.01 (nA) }
ASSIGNED { i (nA)  drawn }
INITIAL { drawn = 0 }
BREAKPOINT {
    SOLVE pick
    i = size*drawn
}
PROCEDURE pick() { drawn = scop_random() }
