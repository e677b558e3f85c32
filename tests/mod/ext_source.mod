: a source of events whose x NEURON compares with the threshold of a NetCon
NEURON {
    POINT_PROCESS ext_source
    RANGE x, start
}
PARAMETER { start = 1 (ms) }
ASSIGNED { x }
INITIAL { x = -90 }
AFTER SOLVE { if (t > start) { x = 20 } else { x = -90 } }
