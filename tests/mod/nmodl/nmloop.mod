: FROM whose bounds are no constants, usetable, and a GLOBAL that INITIAL reads before it is set
NEURON {
    SUFFIX nmloop
    NONSPECIFIC_CURRENT i
    RANGE power, first, gbar, sum, count, n, start, table
    GLOBAL ninf, nexp
}
PARAMETER { v gbar = 2e-4  power = 3  first = -1.5  dt }
ASSIGNED { i ninf nexp sum count start table }
STATE { n }
INITIAL {
    start = ninf
    n = ninf + 0.1
    table = 1
    if (usetable == 0) {
        table = 2
    }
}
BREAKPOINT {
    LOCAL j, g
    SOLVE states
    g = gbar
    FROM j = 1 TO power {
        g = g*n
    }
    i = g*(v + 80)
}
PROCEDURE states() {
    rates(v)
    n = n + nexp*(ninf - n)
    sum = 0
    count = 0
    FROM k = first TO power - 1 BY 2 {
        sum = sum + k*n
        count = count + 1
    }
}
PROCEDURE rates(u) {
    TABLE ninf, nexp DEPEND dt FROM -100 TO 50 WITH 150
    ninf = 1/(1 + exp(-(u + 45)/8))
    nexp = 1 - exp(-dt/(2 + 3*ninf))
}
