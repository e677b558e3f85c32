: a density mechanism that draws from a POINTER
NEURON { SUFFIX ref_stream  NONSPECIFIC_CURRENT i  RANGE u  POINTER rng }
ASSIGNED { v i u rng }
INITIAL { u = 0 }
BREAKPOINT { SOLVE draw  i = 1e-6*u }
PROCEDURE draw() { u = urand() }
FUNCTION urand() {
VERBATIM
    if (_p_rng) {
        return nrn_random_pick((Rand*)_p_rng);
    }
ENDVERBATIM
    urand = 0
}
