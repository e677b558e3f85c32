: what published files do and NEURON takes: tables of more than is needed, and no SUFFIX
NEURON { NONSPECIFIC_CURRENT i  RANGE g, width, scale, x, seen  GLOBAL ainf, aexp, tau }
PARAMETER { g = 1e-4  width = 12  tau = 4  floor_of = 0.3 }
ASSIGNED { v dt i ainf aexp binf btau bexp x scale seen }
STATE { a b }
INITIAL {
    rates(v)
    seen = 0
    VERBATIM
    { extern int cvode_active_;
      if (cvode_active_) { hoc_execerror("nmfiled", "steps are fixed"); } }
    ENDVERBATIM
    a = 0.5
    b = binf
}
BREAKPOINT {
    SOLVE slow METHOD cnexp
    i = g*(a + b)*(v + 60)
}
DERIVATIVE slow {
    rates(v)
    seen = seen + 1
    a' = (ainf - a)/tau
    b' = (binf - b)/(btau + width/50)
}
PROCEDURE rates(u) {
    LOCAL y, k
    TABLE ainf, aexp, binf, bexp, btau DEPEND floor_of, dt FROM -100 TO 60 WITH 160
    VERBATIM
    /* names after DEPEND are no LOCALs */
    double least = floor_of;
    ENDVERBATIM
    aexp = 1 - exp(-dt/tau)
    bexp = 1 - exp(-dt/btau)
    ainf = 1/(1 + exp(-(u + 40)/8))
    FROM k = 0 TO 1 {
        y = 2*k
        VERBATIM
        if (_ly < 1) {
            btau = exp(_lu / 50);
            if (btau < floor_of) { btau = floor_of; }
        } else {
            binf = btau / (btau + _ly) + least;
        }
        ENDVERBATIM
    }
}
