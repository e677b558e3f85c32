: a TABLE that is made in the first step, of one number for all that INITIAL sets
NEURON { SUFFIX ext_warmed  NONSPECIFIC_CURRENT i  RANGE g  GLOBAL warm, half }
PARAMETER { g = 1e-4  half = 40  celsius }
ASSIGNED { v i warm level rate }
STATE { m }
INITIAL { warm = 3^((celsius - 20)/10)  m = 0.3 }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*(v + 50) }
DERIVATIVE s {
    rates(v)
    m' = (level - m)*rate
}
PROCEDURE rates(u) {
    TABLE level, rate DEPEND celsius FROM -100 TO 100 WITH 200
    level = 1/(1 + exp(-(u + half)/7))
    rate = 0.2*(warm + 0.1)
}
