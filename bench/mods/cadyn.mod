TITLE Calcium in a shell with a buffer and a pump

NEURON {
    THREADSAFE
    SUFFIX cadyn
    USEION ca READ ica, cai WRITE cai
    RANGE depth, pump
}

UNITS {
    (mA) = (milliamp)
    (mM) = (milli/liter)
    (um) = (micron)
    FARADAY = (faraday) (coulomb)
}

PARAMETER {
    depth = 0.2 (um)
    total = 0.1 (mM)
    kf = 100 (/mM ms)
    kb = 0.1 (/ms)
    pump = 0.2 (mM)
    on = 30 (/mM ms)
    off = 0.003 (/ms)
    out = 0.2 (/ms)
    leak = 6.75e-6 (/ms)
}

ASSIGNED {
    ica (mA/cm2)
    cai (mM)
    flow (mM/ms)
}

STATE {
    ca (mM)
    buffer (mM)
    bound (mM)
    idle (mM)
    busy (mM)
}

BREAKPOINT { SOLVE scheme METHOD sparse }

INITIAL {
    ca = cai
    bound = total*ca/(ca + kb/kf)
    buffer = total - bound
    busy = pump*ca/(ca + (off + out)/on)
    idle = pump - busy
}

KINETIC scheme {
    flow = -ica*1e4/(2*FARADAY*depth)
    ~ ca + buffer <-> bound (kf, kb)
    ~ ca + idle <-> busy (on, off)
    ~ busy <-> idle (out, leak)
    ~ ca << (flow)
    cai = ca
}
