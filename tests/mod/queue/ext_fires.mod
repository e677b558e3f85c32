: an integrator with a voltage of its own, which sends by WATCH and net_event
NEURON { POINT_PROCESS ext_fires RANGE drive, u, count }
PARAMETER { drive = 120 peak = 35 }
ASSIGNED { u r count }
INITIAL { u = -60 r = -12 count = 0 net_send(0, 1) }
BREAKPOINT { SOLVE advance }
PROCEDURE advance() {
    u = u + dt*(0.7*(u + 60)*(u + 40) - r + drive)/100
    r = r + dt*0.03*(-2*(u + 60) - r)
}
NET_RECEIVE(w) {
    if (flag == 1) {
        WATCH (u > peak) 2
    } else if (flag == 2) {
        net_event(t)
        u = -50
        r = r + 100
        count = count + 1
    } else {
        u = u + w
    }
}
