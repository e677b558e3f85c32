: a loop that sends as many events as a parameter says, and not in the order of their times
NEURON { ARTIFICIAL_CELL nmburst  RANGE turns, gap, seen }
PARAMETER { turns = 3  gap = 1.3 (ms) }
ASSIGNED { seen }
INITIAL { seen = 0 }
NET_RECEIVE (w) {
    if (flag == 0) {
        FROM k = 1 TO turns {
            if (k != 2) { net_event(t + gap*fmod(3*k, 4)) }
            if (w > 0) { net_send(gap*k, k) }
        }
    } else {
        seen = 0.5*seen + flag*t
    }
}
