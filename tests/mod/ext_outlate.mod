: sets e_extracellular after each step, as older versions of xtra.mod do: rejected
NEURON {
    SUFFIX ext_outlate
    RANGE amp
    POINTER ex
}
PARAMETER { amp = 3 }
ASSIGNED { ex }
INITIAL { ex = 0 }
BREAKPOINT { SOLVE drive METHOD after_cvode }
PROCEDURE drive() { ex = amp*t }
