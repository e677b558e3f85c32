: SOLVE without METHOD, which leaves states alone; NEURON's nrn_ghk in C, where v is no LOCAL
NEURON { SUFFIX nmleft  NONSPECIFIC_CURRENT i  RANGE p, inner, flow, minf }
PARAMETER { p = 1e-6  inner = 0.1  z = 2 }
ASSIGNED { v i flow minf celsius }
STATE { m }
VERBATIM
extern double nrn_ghk(double, double, double, double);
ENDVERBATIM
INITIAL { m = 0.4 }
BREAKPOINT {
    SOLVE s
    VERBATIM
    flow = nrn_ghk(v, inner, 2.0, z);
    ENDVERBATIM
    i = p*(m + minf)*flow
}
DERIVATIVE s {
    minf = scaled(v)
    m' = (minf - m)/3
}
FUNCTION scaled(v) { scaled = 1/(1 + exp(-(v + 40)/9)) }
