"""Texts of the built-in mechanisms and of the library.

`hh` is NEURON's hh without its TABLE, that is with ``usetable_hh = 0``. By default NEURON
interpolates its rates between whole mV, which moves spikes: by some tenths of a ms in 200 ms of a
single compartment.
"""

from functools import cache
from importlib.resources import files

BUILT_IN = {
    "pas": """
        density pas                          # passive leak
        parameter g = 0.001 S/cm2
        parameter e = -70 mV
        current i = g*(v - e) [mA/cm2]
    """,
    "hh": """
        density hh                # Hodgkin and Huxley 1952, squid axon; NEURON's at usetable_hh = 0
        parameter gnabar = 0.12 S/cm2
        parameter gkbar = 0.036 S/cm2
        parameter gl = 0.0003 S/cm2
        parameter el = -54.3 mV
        parameter ena = 50 mV
        parameter ek = -77 mV
        parameter celsius = 6.3 degC
        q10 = 3^((celsius - 6.3)/10)

        alpha_m = 0.1*(v + 40)/(1 - exp(-(v + 40)/10)) [1/ms]
        beta_m = 4*exp(-(v + 65)/18) [1/ms]
        state m = alpha_m/(alpha_m + beta_m)
        dm/dt = q10*(alpha_m*(1 - m) - beta_m*m)

        alpha_h = 0.07*exp(-(v + 65)/20) [1/ms]
        beta_h = 1/(exp(-(v + 35)/10) + 1) [1/ms]
        state h = alpha_h/(alpha_h + beta_h)
        dh/dt = q10*(alpha_h*(1 - h) - beta_h*h)

        alpha_n = 0.01*(v + 55)/(1 - exp(-(v + 55)/10)) [1/ms]
        beta_n = 0.125*exp(-(v + 65)/80) [1/ms]
        state n = alpha_n/(alpha_n + beta_n)
        dn/dt = q10*(alpha_n*(1 - n) - beta_n*n)

        current ina = gnabar*m^3*h*(v - ena) [mA/cm2]
        current ik = gkbar*n^4*(v - ek) [mA/cm2]
        current il = gl*(v - el) [mA/cm2]
    """,
    "expsyn": """
        point expsyn                         # conductance that jumps by the weight and decays
        parameter tau = 0.1 ms
        parameter e = 0 mV
        state g = 0 [uS]
        dg/dt = -g/tau
        current i = g*(v - e) [nA]
        on event: g += weight
    """,
    "exp2syn": """
        point exp2syn                        # rises with tau1, decays with tau2, peak = weight
        parameter tau1 = 0.1 ms
        parameter tau2 = 10 ms
        parameter e = 0 mV
        rise = max(min(tau1, 0.9999*tau2), 1e-9*tau2) [ms]
        slope = log(tau2/rise)/(tau2 - rise) [1/ms]       # the peak is at rise*tau2*slope
        factor = 1/(exp(-rise*slope) - exp(-tau2*slope))
        state A = 0 [uS]
        state B = 0 [uS]
        dA/dt = -A/rise
        dB/dt = -B/tau2
        current i = (B - A)*(v - e) [nA]
        on event: A += weight*factor; B += weight*factor
    """,
    "iclamp": """
        point iclamp                         # current into the cell while delay <= t < delay + dur
        parameter delay = 0 ms
        parameter dur = 0 ms
        parameter amp = 0 nA
        current i = -where(delay <= t < delay + dur, amp, 0) [nA]
    """,
    "inoise": """
        point inoise                         # white noise current into the cell
        parameter mean = 0 nA
        parameter std = 0                    # intensity, nA*sqrt(ms): std/sqrt(dt) nA in a step
        current i = -(mean + std*noise) [nA]
    """,
}

NEURON_NAMES = {"IClamp": "iclamp", "ExpSyn": "expsyn", "Exp2Syn": "exp2syn"}

KEPT_NUMBER = """NEURON { POINT_PROCESS kept_number RANGE x }
STATE { x }
BREAKPOINT { SOLVE nothing METHOD euler }
DERIVATIVE nothing { x' = 0 }
"""
GIVEN_CURRENT = """NEURON { POINT_PROCESS given_current RANGE given, i ELECTRODE_CURRENT i }
PARAMETER { given = 0 (nA) }
ASSIGNED { i (nA) }
BREAKPOINT { i = given }
"""
HALF_GAP = """NEURON { POINT_PROCESS half_gap POINTER vgap RANGE g NONSPECIFIC_CURRENT i }
PARAMETER { g = 0 (uS) }
ASSIGNED { v (mV) vgap (mV) i (nA) }
BREAKPOINT { i = g*(v - vgap) }
"""  # the current at one end of a `Network.gap`


@cache
def library_names() -> tuple[str, ...]:
    """Return the sorted names of the mechanisms in `clhines.library`."""
    folder = files("clhines.simulator.mechanisms").joinpath("library_texts")
    return tuple(sorted(p.name[:-4] for p in folder.iterdir() if p.name.endswith(".txt")))


@cache
def library_text(name: str) -> str:
    folder = files("clhines.simulator.mechanisms").joinpath("library_texts")
    return folder.joinpath(f"{name}.txt").read_text("utf-8")
