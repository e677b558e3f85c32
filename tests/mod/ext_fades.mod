: FOR_NETCONS alone sets weights: those of all connections fade
NEURON { POINT_PROCESS ext_fades  NONSPECIFIC_CURRENT i  RANGE g, e }
PARAMETER { e = 0 }
ASSIGNED { v i }
STATE { g }
INITIAL { g = 0  net_send(1.3, 1) }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*(v - e) }
DERIVATIVE s { g' = -g/2 }
NET_RECEIVE(w) {
    if (flag == 1) {
        FOR_NETCONS(each) { each = each*0.8 }
        net_send(1.3, 1)
    } else {
        g = g + w
    }
}
