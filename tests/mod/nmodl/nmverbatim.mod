: C in VERBATIM that NMODL can say, in every sort of block
NEURON { SUFFIX nmverbatim  NONSPECIFIC_CURRENT i  RANGE g, a, b, d, x, peak, n }
PARAMETER { g = 1e-4 }
ASSIGNED { v i a b d x peak n }
STATE { m }
INITIAL {
    LOCAL start
    start = 0.25
    VERBATIM
    /* a LOCAL */
    double step = 1 / 2., three = 3;
    n = three * step + _lstart;
    a = 0; b = 0; d = 0; x = 0; peak = -1e3;
#if 0
    n = 99;
#else
    if (n == 0 && !(step < 3)) hoc_execerror("nmverbatim", "(never");
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
    rates(v)
    m' = (half(a) - m)/5
}
FUNCTION half(y) {
VERBATIM
    double r = pow(_ly, 2.) - fabs(-_ly) * exp(-1.5e0);
    if (r < 0.1)
        return 0.1;
    else if (r > 2) {
        r = r - 0.5;
        _lhalf = r;
        return r / 2.;
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
    d = -a * 2 - -1.0 + 3 - 1;
    if (a <= 0) return 0;
    x = log(a + 1) / (2 * 3.0);
    ENDVERBATIM
    FROM j = 0 TO 2 {
        y = y + j
        VERBATIM
        if (_ly == 0) {
            n = 1 / (_ly + 5);
        } else if (_ly > 2 || _ly < -7) {
            n = n + v * 2;
            if (a > 3) n = 0;
        } else {
            n = n * 0.5 + 1e-3;
        }
        ENDVERBATIM
    }
    if (u > peak) {
        peak = u
    }
}
