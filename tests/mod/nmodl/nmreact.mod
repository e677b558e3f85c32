TITLE a KINETIC scheme that is not linear: buffers in compartments, a flux, decay, arrays
NEURON {
    SUFFIX nmreact
    RANGE i, source, vol, flux
    NONSPECIFIC_CURRENT i
}
DEFINE N 3
PARAMETER { source = 0.05 vol = 0.7 kf = 3 kb = 0.4 total = 0.8 diam }
ASSIGNED { v i flux }
STATE { ca[N] buf cabuf pump bound outside dimer }
INITIAL {
    FROM k=0 TO N-1 { ca[k] = 0.1 + k/10 }
    buf = 0.6 cabuf = 0.2 pump = 0.5 bound = 0.3 outside = 2 dimer = 0.1
}
BREAKPOINT {
    SOLVE scheme METHOD sparse
    i = 1e-5*(ca[0] + cabuf - bound)*(v + 80)
}
KINETIC scheme {
    COMPARTMENT k, vol + k/5 { ca }
    COMPARTMENT diam/500 { pump bound nothing }
    ~ ca[0] << (source*(1 + v/200))
    FROM k=0 TO N-2 {
        ~ ca[k] <-> ca[k+1] (1.5, 1.5)
    }
    ~ ca[0] + buf <-> cabuf (kf, kb)
    flux = f_flux - b_flux
    ~ ca[1] + pump <-> bound (kf*2, kb)
    ~ 2 ca[2] <-> dimer (kf, kb)
    ~ dimer -> (0.05)
    CONSERVE buf + cabuf = total
    CONSERVE pump + bound = total*diam/500
}
 all of this is behind the end of the file }
