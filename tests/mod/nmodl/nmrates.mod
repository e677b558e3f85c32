TITLE derivimplicit whose rates are in expressions: before and behind their own equations
NEURON {
    SUFFIX nmrates
    RANGE i, slide
    NONSPECIFIC_CURRENT i
}
ASSIGNED { v i slide }
STATE { x a b d }
INITIAL { x = 0.1 a = 0.2 b = 0.3 d = 1 slide = 0 }
BREAKPOINT {
    SOLVE change METHOD derivimplicit
    i = 1e-5*(x + a + d)*(v + 60)
}
DERIVATIVE change {
    a' = -(a - 0.4*d')/3
    x' = 0.5*((v + 70)/50 - x)
    slide = 40*(x')^2 - x'
    b' = -0.2*b + slide - 0.1*x'*b
    d' = (1 - d)/4 - 0.1*b*d
}
