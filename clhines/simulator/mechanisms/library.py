"""The library: channels, synapses and clamps of the literature.

The text of each mechanism is a file of ``library_texts``. The text has the parameters with units
and, as comments, a description and the source. The file's name is the mechanism's name here, in
`Network.insert` and in `Network.add`.

>>> from clhines import library
>>> library.nmda
<point mechanism nmda: parameters tau_rise, tau_decay, e, mg>
>>> print(library.km_yamada)
density km_yamada
# muscarinic potassium current (M)
# Yamada, Koch and Adams (1989), in Methods in Neuronal Modeling, MIT Press
parameter gbar = 7e-5 S/cm2
parameter ek = -90 mV
parameter tau_max = 1000 ms
parameter celsius = 36 degC
q10 = 3^((celsius - 36)/10)
m_inf = 1/(1 + exp(-(v + 35)/10))
tau_m = tau_max/(q10*(3.3*exp((v + 35)/20) + exp(-(v + 35)/20))) [ms]
state m = m_inf
dm/dt = (m_inf - m)/tau_m
current i = gbar*m*(v - ek) [mA/cm2]
<BLANKLINE>

To add a mechanism, write a text there, and a .mod file of the same name in ``tests/mod/library`` to
compare with.
"""

from clhines.core.errors import meant
from clhines.simulator.mechanisms.builtin import library_names
from clhines.simulator.mechanisms.mechanism import Mechanism, mechanism


def __dir__() -> list[str]:
    return list(library_names())


def __getattr__(name: str) -> Mechanism:
    if name in library_names():
        return mechanism(name)
    raise AttributeError(f"the library has no {name!r}{meant(name, library_names())}")
