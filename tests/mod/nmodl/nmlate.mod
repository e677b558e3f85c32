TITLE a BREAKPOINT without current, which NEURON executes after the voltages
NEURON { SUFFIX nmlate RANGE peak, count, twice, gate, late, at }
PARAMETER { v (mV) gain = 2 }
ASSIGNED { peak (mV) count twice late at }
STATE { gate }
INITIAL { peak = v count = 0 gate = 0.2 twice = 0 }
BREAKPOINT {
    if (v > peak) { peak = v }
    late = gate
    SOLVE change METHOD cnexp
    twice = gain*gate
    count = count + 1
    at = t
}
DERIVATIVE change { gate' = (1/(1 + exp(-(v + 60)/5)) - gate)/3 }
