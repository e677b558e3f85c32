: decisions by elements of arrays whose index is computed, in loops and between blocks
NEURON { POINT_PROCESS nmpulses  NONSPECIFIC_CURRENT i  RANGE time, size, n, level, wave, late, echo, tau, i }
PARAMETER { tau = 1.3 (ms) }
ASSIGNED { v (mV)  i (nA)  time[12] (ms)  size[12]  n  level  wave  late  echo }
STATE { open shut }
INITIAL {
    FROM k = 0 TO 11 { time[k] = 0 size[k] = 0 }
    time[0] = 1e12
    n = 0
    level = 0
    late = 0
    echo = 0
    open = 0
    shut = 1
}
BREAKPOINT {
    wave = waves()
    SOLVE kin METHOD sparse
    i = 0.001*open*(v + 20)
}
KINETIC kin {
    LOCAL on
    on = wave
    if (wave > 0.5) { on = 0.5 + 0.1*wave }
    ~ shut <-> open (on, 0.4)
}
FUNCTION waves() { LOCAL k, t0
    waves = 0
    FROM k = 1 TO n {
        t0 = time[k - 1]
        if (t > t0 && size[k - 1] > 0.2) { waves = waves + size[k - 1]*exp(-(t - t0)/tau) }
        if (size[k - 1]) { level = k + curve(size[k - 1]) }
    }
}
FUNCTION curve(x) { TABLE FROM 0 TO 0.6 WITH 50
    curve = exp(-x)
}
NET_RECEIVE (w) { LOCAL k
    if (flag == 0) {
        time[n] = t
        size[n] = w
        n = n + 1
        k = 0
        WHILE (k < n && time[k] < t - 2) { k = k + 1 }
        late = k
        if (w > 0 && size[n/2] < w) { size[n/2] = size[n/2] + 0.05 }
        if (time[n/2] < t - 1) { net_send(0.3 + size[n/2], 1) }
    } else {
        echo = echo + 1
        if (size[echo] > 0.5) { late = late + 0.1 }
    }
}
