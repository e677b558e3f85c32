: a source whose intervals are random only where noise is above 0, drawn from NEURON's one
: generator, and which writes a file only where told is above 0
VERBATIM
#include <stdio.h>
ENDVERBATIM
NEURON { ARTIFICIAL_CELL nmnoise  RANGE interval, begin, noise, sent, told }
PARAMETER { interval = 2 (ms)  begin = 0.5 (ms)  noise = 0  told = 0 }
ASSIGNED { event (ms)  sent }
INITIAL {
    if (noise < 0) { noise = 0 }
    if (noise > 1) { noise = 1 }
    sent = 0
    event = begin + next(interval) - interval*(1 - noise)
    net_send(event, 1)
}
FUNCTION next(mean (ms)) (ms) {
    if (noise == 0) {
        next = mean
    } else {
        next = (1 - noise)*mean + noise*mean*exprand(1)
    }
}
NET_RECEIVE (w) {
    if (flag == 1) {
        sent = sent + 1
        VERBATIM
        if (told > 0) {
            FILE* file;
            file = fopen("sent.txt", "a");
            fprintf(file, "%g%%\n", t);
            fclose(file);
        }
        ENDVERBATIM
        net_event(t)
        event = event + next(interval)
        net_send(event - t, 1)
    }
}
