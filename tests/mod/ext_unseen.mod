: a TABLE after DEPEND of what INITIAL sets, and hoc does not see
NEURON { SUFFIX ext_unseen  NONSPECIFIC_CURRENT i  RANGE g, cold }
PARAMETER { g = 1e-4  cold = 0 }
ASSIGNED { v i celsius T }
STATE { m }
INITIAL { T = 273.15 + celsius - cold  m = 0.2 }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*(v + 50) }
DERIVATIVE s { m' = (level(v) - m)*0.2 }
FUNCTION level(u) {
    TABLE DEPEND T FROM -100 TO 100 WITH 200
    level = 1/(1 + exp(-40*(u + 40)/T))
}
