"""Mechanisms of random models, and their random parameters."""

DENSITY = {
    "chkbuffer": {"g": (1e-5, 5e-4), "influx": (0.001, 0.02)},
    "chkcascade": {"g": (1e-5, 5e-4), "tau": (0.5, 3)},
    "chkeight": {"g": (1e-4, 3e-3), "k": (1, 4)},
    "chkpool": {"g": (1e-5, 2e-4), "tau": (2, 8)},
    "chktwo": {"g": (1e-6, 1e-4), "kf": (100, 600)},
    "ext_ca": {"gbar": (1e-5, 5e-4)},
    "ext_cad": {"depth": (0.05, 0.5), "tau": (5, 40)},
    "ext_kca": {"gbar": (1e-4, 2e-3)},
    "ext_table": {"gbar": (1e-5, 4e-4)},
    "ext_second": {"g": (1e-5, 4e-4)},
    "ext_common": {"count": (1, 4)},
    "nmcad": {"depth": (0.05, 0.5), "tau": (5, 40)},
    "nmcnexp": {"k": (0.1, 0.4)},
    "nmcount": {},
    "nmexpr": {"g": (1e-6, 5e-5), "scale": (0.1, 1)},
    "nmfall": {"k": (0.1, 0.5)},
    "nmghk": {"pbar": (1e-6, 5e-5)},
    "nmhand": {"gbar": (1e-5, 4e-4)},
    "nmimplicit": {"k": (0.1, 0.3)},
    "nmkca": {"gbar": (1e-4, 2e-3)},
    "nmkin": {"gbar": (1e-5, 5e-4)},
    "nmlinear": {"k": (1, 3)},
    "nmloop": {"gbar": (1e-5, 4e-4), "power": (1, 4)},
    "nmpumpd": {},
    "nmreact": {"source": (0.01, 0.1), "vol": (0.5, 1)},
    "nmtable": {"gbar": (1e-5, 4e-4)},
    "nmwhen": {},
}
WHOLE = {"count", "power"}
POOLS = ("ext_cad", "nmcad")  # one of them in a section: both write cai
USES_CALCIUM = {"ext_ca", "ext_cad", "ext_kca", "nmcad", "nmghk", "nmkca"}
# parameters of synapses, and the largest weight of a connection
SYNAPSES = {
    "ExpSyn": ({"tau": (0.3, 5)}, 0.02),
    "Exp2Syn": ({"tau1": (0.1, 1), "tau2": (1.5, 8)}, 0.02),
    "ext_nmda": ({"tau": (5, 30), "dur": (0.5, 4)}, 0.003),
    "ext_sum": ({"tau": (1, 5), "dose": (1e-5, 1e-4)}, 0.0005),
    "nmplast": ({"tau": (2, 6)}, 0.004),
    "nmsyn": ({"tau": (1, 6)}, 0.008),
    "nmrandom": ({"amp": (0.001, 0.02)}, 3.0),
}
STIMULI = {
    "IClamp": {"delay": (0, 60), "dur": (50, 500), "amp": (0.02, 0.4)},
    "SEClamp": {"rs": (5, 50), "dur1": (50, 200), "amp1": (-60, -45), "dur2": (10, 100)},
    "OClamp": {},
    "AlphaSynapse": {"onset": (0, 200), "tau": (0.2, 4), "gmax": (0.001, 0.05)},
    "chkshunt": {"g": (1e-4, 2e-3), "k": (0.01, 0.5), "e": (-75, -30)},
    "ext_clamp": {"amp": (0, 0.2)},
    "ext_watch": {"high": (-55, 0), "low": (-75, -58), "amp": (-0.05, 0.1)},
    "nmwatch": {"high": (-50, 10), "low": (-75, -58)},
    "ext_gap": {"g": (1e-4, 3e-3)},
    "nmpoint": {"amp": (0, 0.05), "del": (0, 20), "dur": (5, 400)},
    "imp_gap": {"g": (1e-4, 3e-3)},
}
POINTERS = {"ext_gap": "vgap", "nmpoint": "other"}
SENDS = ("ext_watch", "nmwatch")  # point processes that send events
ARTIFICIAL = {
    "IntFire1": {"tau": (5, 20), "refrac": (1, 5)},
    "IntFire2": {"taum": (5, 15), "taus": (16, 30), "ib": (0, 0.9)},
    "IntFire4": {"taue": (1, 4), "taum": (20, 40)},
    "ext_fire": {"tau": (3, 20), "refrac": (0.5, 3)},
    "ext_move": {},
    "nmcell": {"tau": (5, 15), "refrac": (1, 5)},
}
# constructs that are to be rejected, by the word that the message has to hold
REFUSED = ("extracellular", "CVode", "LinearMechanism")


def put(rng, thing, ranges):
    for name, (low, high) in ranges.items():
        value = float(rng.uniform(low, high))
        setattr(thing, name, round(value) if name in WHOLE else value)
