TITLE a detector that watches v
NEURON {
    POINT_PROCESS nmwatch
    RANGE high, low, ups, downs, when, i
    NONSPECIFIC_CURRENT i
}
PARAMETER { high = -50 low = -58 }
ASSIGNED { v ups downs when i }
INITIAL { ups = 0 downs = 0 net_send(0, 1) }
BREAKPOINT { i = 0 }
NET_RECEIVE(w) {
    IF (flag == 1) {
        WATCH (v > high) 2
    } ELSE IF (flag == 2) {
        ups = ups + 1
        when = t
        net_event(t)
        WATCH (v < low) 3
    } ELSE IF (flag == 3) {
        downs = downs + 1
        WATCH (v > high) 2
    }
}
