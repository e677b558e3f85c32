TITLE expressions, declarations, loops and functions
NEURON {
    SUFFIX nmexpr
    RANGE g, out, table, scale, shared, sum, count, i, x, y, same
    GLOBAL base, twice
    NONSPECIFIC_CURRENT i
    THREADSAFE
}
DEFINE N 4
UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
    FARADAY = (faraday) (coulomb)
    R = (k-mole) (joule/degC)
    PI = (pi) (1)
    KF = (faraday) (kilocoulombs)
}
CONSTANT { offset = 3e-2 (1) }
PARAMETER {
    g = 1e-4 (S/cm2) <0, 1e9>
    base = 2 : not RANGE: one for all
    scale = 0.5
    celsius (degC)
    weights[N]
}
ASSIGNED {
    v (mV)
    i (mA/cm2)
    out table[N] shared sum count twice x y same
}
LOCAL kept, hidden
INITIAL {
    LOCAL k
    twice = 2*base + celsius
    included()
    k = 0
    WHILE (k < N) {
        table[k] = k^2 + offset
        k = k + 1
    }
    kept = twice/7
    hidden = base/8
    sum = 0
    x = 0 y = 1
    IF (v > 0) { same = 2 } ELSE { same = 2 }
}
INCLUDE "nmshared.inc"
BREAKPOINT {
    LOCAL a, b
    a = piece(v) + kept + hidden
    sum = 0
    FROM k=0 TO N-1 {
        sum = sum + table[k]*a
    }
    FROM k=1 TO N-1 BY 2 { sum = sum - table[k] }
    b = -2^2 + 2^3^0.5 + fabs(v)/10 - (3 - 4 - 5)*1e-1 / 2 / 5 (mV)
    out = many(v/50) + b + PI + KF
    if (v > -60 && !(v >= -20) || sum == 0) { x = 1 } else { x = 2 }
    i = g*(v + 65 + 0.01*out + shared/100) + 1e-6*sum*x
}
FUNCTION piece(u (mV)) {
    IF (u < -70) {
        piece = -1
    } ELSE IF (u < -50) {
        piece = (u + 70)/20
        y = piece
    } ELSE {
        piece = exp(-u/100)
    }
}
FUNCTION many(z) {
    many = sqrt(fabs(z)) + log(2 + z*z) + log10(3 + z*z) + sin(z) + cos(z) + tan(z/3)
    many = many + sinh(z) + cosh(z) + tanh(z) + pow(2 + z, 3) + pow(2.5, z) + (2 + z)^1.5
    many = many + floor(z*10) + ceil(z*10) + asin(z/9) + acos(z/9) + atan(z) + fmod(z, 0.7)
}
