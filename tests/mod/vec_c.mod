: a number that C works out, which is rejected
NEURON {
    POINT_PROCESS vec_c
    RANGE x
}
ASSIGNED { x }
INITIAL { x = half(3) }
FUNCTION half(a) {
VERBATIM
    double* whole = &_la;
    _lhalf = *whole / 2;
ENDVERBATIM
}
