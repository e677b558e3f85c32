: functions of NEURON's library scopmath
NEURON { POINT_PROCESS nmscop  RANGE x, y, a, b, c, d, mode }
PARAMETER { x = 0  a = 1  b = 2  c = 3  d = 1.5  mode = 0 }
ASSIGNED { y }
INITIAL { evaluate() }
BREAKPOINT { SOLVE evaluate }
PROCEDURE evaluate() { y = value(x + t) }
FUNCTION value(z) {
    if (mode == 0) { value = step(z, a, b) }
    if (mode == 1) { value = pulse(z, a, b, c) }
    if (mode == 2) { value = ramp(z, a, b, c) }
    if (mode == 3) { value = perpulse(z, a, b, c, d) }
    if (mode == 4) { value = perstep(z, a, b, c) }
    if (mode == 5) { value = squarewave(z, a, b) }
    if (mode == 6) { value = sawtooth(z, a, b) }
    if (mode == 7) { value = revsawtooth(z, a, b) }
    if (mode == 8) { value = sigmoid(z, a, b, c) }
    if (mode == 9) { value = revsigmoid(z, a, b, c) }
    if (mode == 10) { value = hyperbol(z, a, b) }
    if (mode == 11) { value = revhyperbol(z, a, b) }
    if (mode == 12) { value = harmonic(z, a, b, c) }
    if (mode == 13) { value = gauss(z, a, b) }
    if (mode == 14) { value = threshold(z, a, "min") }
    if (mode == 15) { value = threshold(z, a, "max") }
}
