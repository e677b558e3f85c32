: C in VERBATIM that NMODL can say, in every sort of block
NEURON { SUFFIX nmverbatim  NONSPECIFIC_CURRENT i  RANGE g, a, b, c, d, x, peak, turns, table, n }
PARAMETER { g = 1e-4 }
ASSIGNED { v i a b c d x peak turns table[3] n }
STATE { m }
INITIAL {
    LOCAL start
    start = 0.25
    VERBATIM
    /* a LOCAL, an array and an int */
    int k, of_three = 3;
    double step = 1 / 2.;
    n = 0;
    for (k = 0; k < of_three; k++) {
        table[k] = k * step + _lstart;
        n += 1;
    }
    turns = 0; a = 0; b = 0; c = 0; d = 0; x = 0; peak = -1e3;
#if 0
    turns = 99;
#else
    if (turns == 0 && !(n < 3)) printf("%g sites, (n) = %d\n", n, of_three);
#endif
    ENDVERBATIM
    m = start
}
BREAKPOINT {
    if (v > -50) {  : SOLVE is executed all the same
        SOLVE s METHOD cnexp
        i = g*m*(v + 60)
    } else {
        i = g*m*(v + 60)*0.5
    }
}
DERIVATIVE s {
    VERBATIM
    turns++;
    ENDVERBATIM
    rates(v)
    m' = (half(a) - m)/5
}
FUNCTION half(y) {
VERBATIM
    double r = pow(_ly, 2.) - fabs(-_ly) * exp(-1.5e0);
    if (r < 0.1)
        return 0.1;
    else if (r > 2) {
        r -= 0.5;
        _lhalf = r;
        return r / 2;
    }
    _lhalf = sqrt(r) + (r > 1) * 0.01;
ENDVERBATIM
}
PROCEDURE rates(u) {
    LOCAL y
    y = (u + 70)/20
    VERBATIM
    if (_ly > 0.5 || t < 1e-9) {
        a = _ly;
        b = half(_threadargscomma_ _ly + 0.1);
    } else {
    ENDVERBATIM
        a = y/2
        b = 0
    VERBATIM
    }
    c = 0;
    while (c < 2.5) { c += 1; }
    d = -c * 2 - -1.0 + 3 - 1;
    if (a <= 0) return 0;
    x = log(a + 1) / (2 * 3.0);
    ENDVERBATIM
    FROM j = 0 TO 2 {
        VERBATIM
        if (_lj == 0) {
            table[_lj] = 1 / (_ly + 5);
            table[_lj] /= 2;
        } else if (_lj == 1 || _lj == 7) {
            table[_lj] = v * 2;
            if (a > 3) table[_lj] = 0;
        } else {
            table[_lj] += 1e-3;
        }
        ENDVERBATIM
    }
    if (u > peak) {
        peak = u
    }
}
