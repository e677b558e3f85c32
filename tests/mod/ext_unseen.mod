: TABLEs after DEPEND of what INITIAL sets, and hoc does not see
NEURON { SUFFIX ext_unseen  NONSPECIFIC_CURRENT i  RANGE g, cold, speed, least }
PARAMETER { g = 1e-4  cold = 0  least = 0.2 }
ASSIGNED { v i celsius T speed }
STATE { m }
INITIAL { T = 273.15 + celsius - cold  m = 0.2 }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*(v + 50) }
DERIVATIVE s { pace(v)  m' = (level(v) - m)*speed }
FUNCTION level(u) {
    TABLE DEPEND T FROM -100 TO 100 WITH 200
    level = 1/(1 + exp(-40*(u + 40)/T))
}
PROCEDURE pace(u) {
    TABLE speed DEPEND T, least FROM -100 TO 100 WITH 200
    speed = least + exp(10*u/T)
}
