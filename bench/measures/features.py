"""Features that a run computes on the device, beside eFEL on the traces of the same run.

    python -m bench features [--device SPEC] [--traces 1000]

Needs eFEL. Cells of a soma and two dendrites with `hh` get current steps, some with noise; their
sodium conductances differ. dt is a power of 2 and eFEL interpolates at dt, so eFEL uses the samples
unchanged. Timed are a run that computes all features, a run that records the traces, and, on these
traces, `clhines.simulator.analysis.extract` and eFEL on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import clhines
from bench import MissingError, record, table
from clhines.simulator.analysis import FEATURES, Features, RaggedArray, extract

DT, START, END, STOP = 2.0**-5, 50.0, 250.0, 300.0  # ms
NEEDED = 1e-9  # relative, except for ratios whose terms cancel
INDICES = ("spike_count", "spike_count_stimint", "peak_indices", "min_AHP_indices")


def network(count: int) -> tuple[clhines.Network, np.ndarray]:
    rng = np.random.default_rng(record.SEED)
    cable = clhines.discretise(clhines.sample_cells()[0], max_length=200)
    net = clhines.Network(cable, num_cells=count)
    net.insert("hh", gnabar=net.per_cell(rng.uniform(0.08, 0.14, count)))
    amp = rng.choice([-0.3, -0.1, 0.0, 0.5, 1.5, 3.0], count)
    net.add("iclamp", at=net.soma, delay=START, dur=END - START, amp=amp)
    net.add("inoise", at=net.soma, std=rng.choice([0.0, 0.0, 1.0], count))
    return net, amp


def timed(do: Callable[[], Any]) -> tuple[Any, list[float]]:
    wall, processor = time.perf_counter(), time.process_time()
    result = do()
    return result, [time.perf_counter() - wall, time.process_time() - processor]


def second_run(sim: clhines.Simulation) -> tuple[Any, list[float]]:
    sim.run(STOP)
    sim.reset()
    return timed(lambda: sim.run(STOP))


def compared(name: str, mine: np.ndarray | RaggedArray, theirs: Sequence[Any]) -> dict[str, Any]:
    """Return how many traces have a value, how far they differ, and how many differ in kind."""
    worst, values, wrong = 0.0, 0, 0
    for one, other in zip(mine, theirs, strict=True):
        ours = np.atleast_1d(one)
        ours = ours[~np.isnan(ours)] if ours.dtype.kind == "f" else ours
        expected = np.zeros(0) if other is None else np.asarray(other, float)
        expected = expected[~np.isnan(expected)]
        values += len(expected) > 0
        if ours.shape != expected.shape:
            wrong += 1
        elif len(ours):
            scale = np.maximum(np.abs(expected), 1e-300)
            apart = np.where(ours == expected, 0.0, np.abs(ours - expected) / scale)
            worst = max(worst, float(apart.max()))
    return {"feature": name, "traces": values, "relative": worst, "unequal": wrong}


def main(arguments: Sequence[str]) -> int:
    """Run the measure; return 1 if a feature differs from eFEL's."""
    parser = record.parser("features", __doc__ or "")
    parser.add_argument("--traces", type=int, default=1000)
    args = parser.parse_args(arguments)
    try:
        import efel
    except ImportError as error:
        raise MissingError("eFEL is not installed; expected pip install efel") from error
    queue = record.queue(args.device, ["float64"])
    net, amp = network(args.traces)
    stimulus = {"stim_start": START, "stim_end": END, "stimulus_current": amp}
    sim = clhines.Simulation(net, DT, queue=queue)
    both = clhines.Simulation(net, DT, queue=queue)
    number = sim.record("v", net.soma, reduce=Features(FEATURES, **stimulus))
    v = both.record("v", net.soma)
    result, streamed = second_run(sim)
    whole, recorded = second_run(both)
    _, on_host = timed(lambda: extract(whole[v].T, whole.t, FEATURES, **stimulus))
    efel.reset()
    efel.set_setting("interp_step", DT)
    traces = [
        {"T": whole.t, "V": row, "stim_start": [START], "stim_end": [END], "stimulus_current": [a]}
        for row, a in zip(whole[v].T, amp, strict=True)
    ]
    theirs, of_efel = timed(
        lambda: efel.get_feature_values(traces, list(FEATURES), raise_warnings=False)
    )
    rows = [
        compared(name, result.features[number][name], [one[name] for one in theirs])
        for name in FEATURES
    ]
    measured = {
        "traces": args.traces,
        "samples": len(whole.t),
        "seconds": {"features": streamed, "traces": recorded, "extract": on_host, "eFEL": of_efel},
        "features": rows,
    }
    record.write("features", queue, arguments, measured, text, args.out)
    bad = [row for row in rows if row["unequal"] or (row["feature"] in INDICES and row["relative"])]
    return int(bool(bad))


def text(result: dict[str, Any]) -> str:
    spent = {k: f"{wall:.2f} ({cpu:.2f})" for k, (wall, cpu) in result["seconds"].items()}
    head = [
        f"{result['traces']} traces of {result['samples']} samples, float64; seconds, in brackets "
        f"of the processor: a run that computes all features {spent['features']}, one that records "
        f"the traces {spent['traces']}, extract on these {spent['extract']}, eFEL {spent['eFEL']}"
    ]
    lines = [
        f"{row['feature']:<30}{row['traces']:>9}{row['unequal']:>18}{row['relative']:>22.1e}"
        for row in result["features"]
    ]
    title = f"{'feature':<30}{'traces':>9}{'other number':>18}{'largest difference':>22}"
    note = (
        "traces: that have a value by eFEL. other number: of traces where one has more values. "
        "largest difference: relative. Sums of thousands of samples differ by rounding, and ratios "
        "and differences of what nearly cancels lose as many digits more."
    )
    return "\n".join(
        [*table.wrapped(head), "", table.ruled(title, lines), "", *table.wrapped([note])]
    )
