: sends at intervals that are random by a POINTER's stream, or by the one generator without one
NEURON { ARTIFICIAL_CELL ExtTrain  RANGE mean, noise, sent  POINTER source }
PARAMETER { mean = 2 (ms)  noise = 0 }
ASSIGNED { source  sent }
INITIAL {
    if (noise < 0) { noise = 0 }
    sent = 0
    net_send(interval(), 1)
}
FUNCTION interval() {
    interval = mean
    if (noise > 0) { interval = mean*(1 - noise + noise*erand()) }
}
FUNCTION erand() {
VERBATIM
    if (_p_source) {
        _lerand = nrn_random_pick((Rand*) _p_source);
    } else {
ENDVERBATIM
        erand = exprand(1)
VERBATIM
    }
ENDVERBATIM
}
PROCEDURE draw() {
VERBATIM
    void** pv = (void**)(&_p_source);
    *pv = ifarg(1) ? nrn_random_arg(1) : nullptr;
ENDVERBATIM
}
NET_RECEIVE (w) {
    if (flag == 1) {
        sent = sent + 1
        net_event(t)
        net_send(interval(), 1)
    }
}
