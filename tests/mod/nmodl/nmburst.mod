: a loop that sends as many events as a parameter says, at most 8
NEURON { ARTIFICIAL_CELL nmburst  RANGE turns, gap, seen }
PARAMETER { turns = 3  gap = 1.3 (ms) }
ASSIGNED { seen }
INITIAL { seen = 0 }
NET_RECEIVE (w) {
    if (flag == 0) {
        FROM k = 1 TO 8 {
            if (k <= turns && k != 2) { net_event(t + gap*k/2) }
            if (k <= turns && w > 0) { net_send(gap*k, k) }
        }
    } else {
        seen = 0.5*seen + flag*t
    }
}
