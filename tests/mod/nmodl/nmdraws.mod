: numbers of NEURON's one generator: in INITIAL, SOLVE, BREAKPOINT, loops, events
NEURON { POINT_PROCESS nmdraws  NONSPECIFIC_CURRENT i  RANGE g, seed, noise, turns, x, y, u }
PARAMETER { g = 1e-3  seed = -1  noise = 0.5 }
ASSIGNED { v i turns x y u dt }
STATE { m }
INITIAL {
    if (seed >= 0) { set_seed(seed) }
    m = scop_random()
    x = normrand(0, 1)
    turns = 0
    y = exprand(2)
    net_send(exprand(1), 1)
}
BREAKPOINT {
    SOLVE s METHOD cnexp
    if (noise > 0) { u = noise*normrand(0, 0.1) }
    i = g*(m + x)*(v + 50)
}
DERIVATIVE s {
    p()
    m' = -m/3 + noise*normrand(0, 0.3)
}
PROCEDURE p() {
    x = x + sqrt(dt)*normrand(0, 1) - dt*x
    if (scop_random() < 0.3 && scop_random() < 0.5) { y = y + exprand(0.1) }
    WHILE (scop_random() < 0.4) {
        turns = turns + 1
        y = 0.9*y + 0.1*scop_random()
    }
}
NET_RECEIVE(w) {
    if (flag == 1) {
        m = m + 0.1*normrand(0, 1)
        net_send(0.1 + 0.2*exprand(2), 1)
    } else {
        m = m + w*scop_random()
    }
}
FUNCTION pick() { pick = scop_random() }
PROCEDURE sow(x) { set_seed(x) }
