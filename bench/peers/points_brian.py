"""The CUBA network in Brian 2, C++ standalone: a script for an interpreter that has Brian.

    python points_brian.py NEURONS SECONDS THREADS SEED

It imports nothing from here. With 0 threads the program is built without OpenMP. It writes a line
of JSON when that is built, and another one after each line that it reads, for which it runs it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time


def main(arguments: list[str]) -> None:
    import brian2
    from brian2 import NeuronGroup, SpikeMonitor, Synapses, device, ms, prefs, second

    neurons, threads, seed = (int(arguments[k]) for k in (0, 2, 3))
    duration, begin = float(arguments[1]), time.perf_counter()
    folder = tempfile.mkdtemp()
    brian2.set_device("cpp_standalone", directory=folder, build_on_run=False)
    prefs.devices.cpp_standalone.openmp_threads = threads
    brian2.defaultclock.dt = 0.1 * ms
    brian2.seed(seed)
    equations = """
        dv/dt = (ge + gi - (v + 49*mV)) / (20*ms) : volt (unless refractory)
        dge/dt = -ge / (5*ms) : volt
        dgi/dt = -gi / (10*ms) : volt
    """
    how = {"threshold": "v > -50*mV", "reset": "v = -60*mV", "refractory": 5 * ms}
    group = NeuronGroup(neurons, equations, method="exact", **how)
    group.v = "-60*mV + rand() * 10*mV"
    border = neurons * 4 // 5
    scale = 4000 / neurons  # as many synapses per neuron in any network
    excite = Synapses(group, group, on_pre="ge += 1.62*mV")
    excite.connect(f"i < {border}", p=0.02 * scale)
    inhibit = Synapses(group, group, on_pre="gi -= 9*mV")
    inhibit.connect(f"i >= {border}", p=0.02 * scale)
    monitor = SpikeMonitor(group)
    brian2.run(duration * second)
    device.build(directory=folder, run=False)
    built = time.perf_counter() - begin
    print(json.dumps({"build_s": built, "version": brian2.__version__}), flush=True)
    for _ in sys.stdin:
        device.run()
        hz = float(monitor.num_spikes / neurons / duration)
        # time for the loop over steps, by the program itself
        print(json.dumps({"seconds": float(device._last_run_time), "hz": hz}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
