COMMENT
Adds the current to a neighbour, as a moment, to a variable of a point process and to a number.
ENDCOMMENT

NEURON {
    SUFFIX ext_adds
    RANGE ri, length, moment
    POINTER neighbour, total, whole
}

ASSIGNED {
    v (mV)
    neighbour (mV)
    ri (megohm)
    length (um)
    moment (fA m)
    total (fA m)
    whole (fA m)
}

AFTER SOLVE {
    moment = length*(neighbour - v)/ri
    total = total + moment
    whole = moment + whole
}

AFTER INITIAL {
    moment = length*(neighbour - v)/ri
    total = total + moment
    whole = whole + moment
}
