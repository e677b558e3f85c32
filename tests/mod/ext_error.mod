: ends the run with an error after some events
NEURON { POINT_PROCESS ext_error  NONSPECIFIC_CURRENT i  RANGE g, n, most }
PARAMETER { most = 3 }
ASSIGNED { v i n }
STATE { g }
INITIAL { g = 0  n = 0 }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*v }
DERIVATIVE s { g' = -g/2 }
NET_RECEIVE(w) {
    n = n + 1
    if (n > most) {
        VERBATIM
        hoc_execerror("too many events", 0);
        ENDVERBATIM
    }
    g = g + w
}
