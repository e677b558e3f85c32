: a VecStim with a place in a membrane
NEURON { POINT_PROCESS ref_train  RANGE index }
ASSIGNED { index etime (ms) space }
INITIAL {
    index = 0
    element()
    if (index > 0) { net_send(etime - t, 1) }
}
NET_RECEIVE(w) {
    if (flag == 1) {
        net_event(t)
        element()
        if (index > 0) { net_send(etime - t, 1) }
    }
}
PROCEDURE element() {
VERBATIM
    int i = (int) index;
    if (i >= 0) {
        IvocVect* vector = *((IvocVect**) (&space));
        int size = vector ? vector_capacity(vector) : 0;
        if (i < size) {
            etime = vector_vec(vector)[i];
            index += 1.;
        } else {
            index = -1.;
        }
    }
ENDVERBATIM
}
PROCEDURE play() {
VERBATIM
    *((IvocVect**) (&space)) = ifarg(1) ? vector_arg(1) : nullptr;
ENDVERBATIM
}
