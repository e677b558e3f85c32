: sets the weight of another NetCon, as rules of plasticity that are point processes do
NEURON { POINT_PROCESS ext_steer  POINTER w  RANGE trace, change, last, most }
PARAMETER { tau = 8 (ms)  rate = 0.05  most = 0.03 }
ASSIGNED { w trace change last }
INITIAL { trace = 0  change = 0  last = 0 }
NET_RECEIVE(sign) {
    trace = trace*exp((last - t)/tau)
    last = t
    change = sign*rate*most*trace
    trace = trace + 1
    w = w + change
    if (w > most) { w = most }
    if (w < 0) { w = 0 }
}
