: events at the times of a Vector behind a POINTER; times that have passed are left out
NEURON {
    ARTIFICIAL_CELL vec_pointer
    POINTER ptr
}
ASSIGNED {
    index
    etime (ms)
    ptr
}
INITIAL {
    index = 0
    element()
    if (index > 0) {
        if (etime - t >= 0) { net_send(etime - t, 1) } else { net_send(0, 2) }
    }
}
NET_RECEIVE(w) {
    if (flag == 1) { net_event(t) }
    if (flag == 1 || flag == 2) {
        element()
        if (index > 0) {
            if (etime - t >= 0) { net_send(etime - t, 1) } else { net_send(0, 2) }
        }
    }
}
PROCEDURE element() {
VERBATIM
    int i = (int) index;
    if (i >= 0) {
        IvocVect* vector = (IvocVect*) _p_ptr;
        int size = vector ? vector_capacity(vector) : 0;
        double* px = vector ? vector_vec(vector) : nullptr;
        if (i < size) {
            etime = px[i];
            index += 1.;
        } else {
            index = -1.;
        }
    }
ENDVERBATIM
}
PROCEDURE play() {
VERBATIM
    _p_ptr = ifarg(1) ? (double*) vector_arg(1) : nullptr;
ENDVERBATIM
}
