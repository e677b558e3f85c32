TITLE states that begin with what lists name and no block declares
NEURON {
    SUFFIX nmstarts
    RANGE i, buf0, half
    GLOBAL n0
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i half }
STATE { buf[2] n c }
INITIAL { half = buf0/2  buf[1] = half }
BREAKPOINT {
    SOLVE kin METHOD sparse
    i = 1e-4*(buf[0] + n)*(v + 60)
}
KINETIC kin {
    ~ buf[0] <-> buf[1] (0.1*(v + 90)/50, 0.2)
    ~ n <-> c (0.05, 0.3)
}
