: a TABLE that is made of what INITIAL sets, which NEURON makes before it
NEURON { SUFFIX ext_warm  NONSPECIFIC_CURRENT i  RANGE g, warm  GLOBAL half }
PARAMETER { g = 1e-4  half = 40  celsius }
ASSIGNED { v i warm level rate }
STATE { m }
INITIAL { warm = 3^((celsius - 20)/10)  rates(v)  m = level }
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
