: a PROCEDURE that sets the temperature's factor only where NEURON makes its TABLE, as channels of Mainen do
NEURON { SUFFIX ext_aside  USEION k READ ek WRITE ik  RANGE gbar, early, n  GLOBAL tadj, half }
PARAMETER { gbar = 2e-3  early = 1  half = 25  celsius }
ASSIGNED { v ik ek ninf ntau tadj a }
STATE { n }
INITIAL { if (early) { trates(v) }  n = 0.2 }
BREAKPOINT { SOLVE s METHOD cnexp  ik = tadj*gbar*n*(v - ek) }
DERIVATIVE s {
    trates(v)
    n' = (ninf - n)/ntau
}
PROCEDURE trates(u) {
    TABLE ninf, ntau DEPEND celsius, half FROM -120 TO 100 WITH 199
    rates(u)
    tadj = 2.3^((celsius - 23)/10)
    ntau = ntau/tadj
}
PROCEDURE rates(u) {
    a = 1/(1 + exp(-(u + half)/9))
    ninf = a
    ntau = 2 + 10*a
}
