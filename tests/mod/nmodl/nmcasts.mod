: C of VERBATIM with whole numbers, and what it asks for that is not there
NEURON { SUFFIX nmcasts  NONSPECIFIC_CURRENT i  RANGE g, n, seen, cut, kept, space }
PARAMETER { g = 1e-4 }
ASSIGNED { v i n seen cut kept[4] space }
STATE { m }
INITIAL { n = 0  m = 0.5  cut = 0  seen = 0  FROM k = 0 TO 3 { kept[k] = 0 } }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*(v + 60) }
DERIVATIVE s {
    shift((v + 70)/20)
    m' = (0.5 + 0.01*seen - m)/5
}
PROCEDURE shift(x) {
VERBATIM
    int k;
    const int least = (int) 1.9;
    for (k = (int) 3.2; k >= 1; k--) kept[k] = kept[k - 1];
    kept[0] = _lx;
    cut = (int)(_lx*10) + (double)(int)(-3.5*_lx);
    n += least;
    assert(g > 0);
    {
        void* vv;
        vv = *((void**)(&space));
        if (vv) { vector_resize(vv, (int) n); }
    }
    seen = kept[2] + (int)(2.5 + (n > 3));
ENDVERBATIM
}
