"""The switch: NEURON's own calls run a model on the device, or in NEURON if that ends sooner.

Words: a *call* is one of ``run``, ``continuerun`` and ``psolve``. Either the
*device* takes a call, which means all its steps but the last one, or NEURON does.

Who owns what
    `enabled`: `enable`, `disable`. `hooks`: replacements of NEURON's functions while the switch is
    on. `runner`: a call on the device or in NEURON; `errors`: its exceptions. `cost`: the estimate
    of who ends a call sooner, and records of earlier runs; `background`: a child process that
    compiles kernels for later calls. `selftest`: whether each hook reaches the switch.

Nothing here imports the readers of NEURON's memory or PyOpenCL before the device takes a call or
kernels are compiled for one.
"""

from clhines.neuron.switch.enabled import disable, enable

__all__ = ["disable", "enable"]
