"""Figures of NEURON's models, and of random ones."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure, Quote
from bench.quoted.entries import (
    NEURON,
    SIMULATING,
    SPEED,
    SUPPORTED,
    SWITCH,
    Row,
    Shown,
    field,
    micro,
    prose,
    row,
    said,
    upper,
)

XEON = "r-xeon-r-processor-2-80ghz"
FILES = {"H200": "models-nvidia-h200", "two cores": f"models-pocl-intel-{XEON}"}
RUNS = (  # of single cells, s
    ("112546", "0.1"), ("143604", "0.05"), ("148094", "0.1"), ("168148", "0.05"), ("126637", "0.05")
)  # fmt: skip
TWO_CORES = "models-pocl-intel-r-xeon-r-processor"
MODELS = (
    ("layer 5 pyramidal cell, ModelDB 139653 | 1, 642", "139653", "H200", "1 s", ""),
    ("layer 5 pyramidal cell, ModelDB 139653 | 1, 642", "139653", "two cores", "1 s", ""),
    ("Purkinje cell, ModelDB 229585 | 1, 1,611", "229585", "H200", "1 s", ""),
    ("Purkinje cell, ModelDB 229585 | 1, 1,611", "229585", "two cores", "0.1 s", "cdp5"),
    ("cortical column, nrntraub, a tenth (1) | 356, 23,109", "nrntraub", "H200", "1 s", "(1)"),
    ("reduced dentate gyrus, ten of each kind | 60, 2,000", "reduced_dentate", "H200", "1 s", ""),
    (
        "reduced dentate gyrus, ten of each kind | 60, 2,000",
        "reduced_dentate",
        "two cores",
        "0.3 s",
        "",
    ),
    ("NetPyNE's tutorial network | 200, 200", "netpyne", "two cores", "1 s", ""),
    ("BMTK's 14 cells | 10, 1,436", "bmtk", "two cores", "1 s", "NaV"),
)
FRAMEWORKS = "## How long do whole scripts take?"
PUBLISHED = "## How many published models run by their own scripts?"
OUTCOMES = {
    "equal, run here as they are": "equal",
    "equal, run here by `fixed_step=` beside NEURON's steps of that length, as they turn on "
    "CVode's variable steps": "equal, by fixed_step=",
    "all spikes equal, voltages as far off as those of NEURON's other solver of the matrix": (
        "as near as NEURON to itself"
    ),
    "NEURON takes the steps, in loops that the switch leaves to it, or left when a row was made": (
        "by NEURON's own steps"
    ),
    "NEURON takes such steps with `fixed_step=`": "by NEURON's own steps, by fixed_step=",
    "rejected": "refused",
    "rejected with `fixed_step=`, too": "refused, by fixed_step=",
}
NEAR = "as near as NEURON to itself"
EQUAL = "equal", "equal, by fixed_step=", NEAR, f"{NEAR}, by fixed_step="
OWN, REJECTED = ("by NEURON's own steps",), ("refused", "refused, by fixed_step=")
WRONG = "differs", "fails here", "differs, by fixed_step=", "fails here, by fixed_step="
EVERY = (*EQUAL, *OWN, *REJECTED, *WRONG)
LARGE = {"BMTK `bio_300cells_nosurround`": "BMTK bio_300cells", "NetPyNE's M1": "netpyne M1"}
EXAMPLES = {
    "NetPyNE `HHTut`": "netpyne HHTut",
    "NetPyNE `tut2.py`": "netpyne tut2",
    "NetPyNE `tut3.py`": "netpyne tut3",
    "NetPyNE `tut_gap.py`": "netpyne tut_gap",
    "NetPyNE `tut_graded.py`": "netpyne tut_graded",
    "LFPy `example_EEG.py`": "LFPy EEG",
    "BluePyOpt `expsyn.py`": "BluePyOpt expsyn",
    "BluePyOpt `metaparameters.ipynb`": "BluePyOpt metaparameters",
    "hnn-core `plot_firing_pattern.py`": "hnn-core firing_pattern",
    "BMTK `bio_1cell`": "BMTK bio_1cell",
}
MORE = {
    "NetPyNE `tut4.py`, Izhikevich cells": "netpyne tut4",
    "NetPyNE `tut5.py`": "netpyne tut5",
    "NetPyNE `tut6.py`": "netpyne tut6",
    "NetPyNE `tut7.py`, the last of its runs": "netpyne tut7",
    "BluePyOpt `simplecell.ipynb`": "BluePyOpt simplecell",
    "BMTK `bio_14cells`": "BMTK bio_14cells",
}
LAST = {
    "NetPyNE `HHTut`": "netpyne HHTut",
    "NetPyNE `tut6.py`": "netpyne tut6",
    "hnn-core `plot_firing_pattern.py`": "hnn-core firing_pattern",
    "BMTK `bio_1cell`": "BMTK bio_1cell",
}
LAST_GPU = {
    "`HHTut`, 200 cells": "netpyne HHTut",
    "LFPy `example_EEG.py`": "LFPy EEG",
    "BluePyOpt `expsyn.py`": "BluePyOpt expsyn",
    "hnn-core, 270 cells": "hnn-core firing_pattern",
    "`bio_1cell`, 1 cell": "BMTK bio_1cell",
    "`bio_300cells_nosurround`, 300 cells": "BMTK bio_300cells",
    "NetPyNE's M1, 94 cells": "netpyne M1",
    "NetPyNE's M1, 495 cells": "netpyne M1 5 %",
    "NetPyNE's M1, 1,001 cells": "netpyne M1 10 %",
}
SPIKES = "## When is the last spike known?"
TRIED = "## What has been tried?"
FIXED = "fixed-pocl-intel-r-xeon-r-processor"
FIXED_STEPS = "## Fixed steps in place of variable ones"
VARIABLE = (
    ("139653", "139653, layer 5 pyramidal cell, 3 s"),
    ("149100", "149100, layer 5 pyramidal cell, 3 s"),
    ("112546", "112546, CA1, 0.5 s"),
    ("148094", "148094, hippocampus, 0.5 s"),
    ("19696", "19696, CA1, 0.5 s"),
    ("44050", "44050, CA1, 0.5 s"),
    ("144976", "144976, CA1, 0.5 s"),
    ("87535", "87535, hippocampus, 0.5 s"),
    ("118098", "118098, CA3, no spikes, 0.5 s"),
    ("244416", "244416, CA1, 1.5 s"),
    ("ring20", "ring of 20 cells, 0.2 s"),
)


def seconds(name: str) -> Shown:
    """Return what shows seconds of a row that may lack them."""

    def shown(r: Row) -> str:
        return f"{r[name]:,.1f} s" if r.get(name) else "-"

    return shown


def aims() -> Iterator[Quote]:
    """Yield the table of aims that are missed on an H200."""
    here, models, copies = (
        "### Aims that are missed on an H200",
        FILES["H200"],
        "models-copies-nvidia-h200",
    )

    def run(model: str) -> Figure:
        return Figure(models, field("clhines_us"), {"model": model})

    def warm(model: str, count: int = 1) -> Figure:
        return Figure(copies, field("warm_us"), {"model": model, "copies": count})

    def cell(count: int, dtype: str = "float64") -> Figure:
        where = {"cell": "l5pc", "copies": count, "dtype": dtype, "engine": "epochs"}
        return Figure("cells-nvidia-h200", micro, where)

    def ring(file: str) -> Figure:
        where = {"cells": 16384, "name": "clhines (epochs-gpu), float64"}
        return Figure(file, micro, where)

    def whole(shown: Shown) -> Figure:
        return Figure("models-whole-nvidia-h200", shown, {"model": "nrntraub"})

    two = {"kind": "strong", "cells": 65536, "ranks": 2}
    far = Figure("scale-nvidia-h200", field("speed_up", "{:.2f}"), two)
    traub = {"model": "nrntraub", "devices": 2}
    spread, built = (
        Figure("models-spread-nvidia-h200", field(name, "{:.2f}"), traub)
        for name in ("faster", "faster_built")
    )
    turn = Figure("turns-nvidia-h200", micro, {"cell": "small", "events": "grid"})
    rows: tuple[tuple[str, tuple[Figure, ...], str], ...] = (
        ("nrntraub, a tenth of the cells", (warm("nrntraub"),), "25"),
        ("reduced_dentate, 60 cells with gap junctions", (warm("reduced_dentate"),), "20"),
        ("20212, a run of 0.1 s; the kernel alone", (run("20212"), warm("20212")), "12"),
        *((f"{m}, a run of {s} s", (run(m),), "12") for m, s in RUNS),
        (
            "a ring of 20 cells from NEURON's memory; by texts",
            (run("ring20"), run("ring20-text")),
            "1.3 times",
        ),
        (
            "a pyramidal cell by texts, 1 copy; 1,000; 10,000",
            (cell(1), cell(1000), cell(10000)),
            "9; 45; 400",
        ),
        (
            "the same in float32, 1 copy; 10,000",
            (cell(1, "float32"), cell(10000, "float32")),
            "6; 190",
        ),
        ("1,000 copies of 2488, 199 compartments with calcium", (warm("2488", 1000),), "15"),
        (
            "ring of 16,384 cells, channels at the soma; everywhere",
            (ring("ring-nvidia-h200"), ring("ring-all-nvidia-h200")),
            "28; 120",
        ),
        ("a turn of a closed loop", (turn,), "60"),
        ("nrntraub with all cells, 1 s", (whole(lambda r: f"{r['us']:.0f}"),), "80"),
        (
            "the first run of it, kernels left by an earlier process, s",
            (whole(lambda r: f"{r['first_s']:.1f}"),),
            "12",
        ),
    )
    for label, figures, aim in rows:
        measured = "; ".join(["{}"] * len(figures))
        yield Quote(SPEED, here, f"{label} | {measured} | {aim} |", figures)
    words = "with all cells is {} times as fast as on one, and {} times with NEURON's"
    yield Quote(SPEED, here, words, (spread, built))
    each = (
        Figure("models-spread-nvidia-h200", shown, {**traub, "devices": count})
        for shown, count in (
            (field("run_s", "{:.2f}"), 1),
            (field("run_s", "{:.2f}"), 2),
            (lambda r: f"{r['exchanges']:,.0f}", 2),
        )
    )
    words = "one takes {} s and two take {} s, with {} exchanges"
    yield Quote(SPEED, here, words, tuple(each))
    yield Quote(SPEED, here, "A ring of 65,536 cells is {} times as fast", (far,))
    words = "1,000 copies of 139653 | {} | 1.15 times {}, `l5pc` by texts |"
    yield Quote(SPEED, here, words, (warm("139653", 1000), cell(1000)))


GAPS = {
    "ring20": "as it is | epochs",
    "ring20-diffuses": "with LONGITUDINAL_DIFFUSION | `steps`",
    "ring20-hands_on": "with a GLOBAL variable that each instance sets in turn | `steps`",
    "ring20-reads": "with pointers to variables of a mechanism | `steps`",
}
STARTS = {
    "clhines solve": "`clhines solve`",
    "ring.py": "`ring.py`, a network of texts",
    "fi_curve.py": "`fi_curve.py`",
    "139653": "139653 in NEURON",
    "nrntraub": "nrntraub, a tenth of the cells, in NEURON",
}


def gaps() -> Iterator[Quote]:
    """Yield what the ring takes with needs that epochs do not take."""
    for model, label in GAPS.items():
        figures = [
            Figure(file, lambda r: f"{r['clhines_us']:.1f}", {"model": model})
            for file in (FILES["H200"], "models-pocl-amd-epyc")
        ]
        yield row(SIMULATING, "### Execution engines", label, *figures)


def starts() -> Iterator[Quote]:
    """Yield the table of starts."""
    for name, label in STARTS.items():
        fields = [field(f"{state}_seconds", "{:.1f}") for state in ("cold", "warm")]
        files = ("starts-pocl-amd-epyc", "starts-nvidia-h200")
        figures = [Figure(file, f, {"name": name}) for file in files for f in fields]
        yield row(SPEED, "### Starts", label, *figures)


def models() -> Iterator[Quote]:
    """Yield the table of models, and what random models gave."""
    here = "## Real models"
    for label, model, on, stop, why in MODELS:

        def of(shown: Shown, on: str = on, model: str = model) -> Figure:
            return Figure(FILES[on], shown, {"model": model})

        words = f"| {label} | {{}} | {on} | {stop} | {{}} | {{}} | {{}} | {{}} |"
        found = [of(lambda r: f"{r['spikes']:,}")]
        found += [of(seconds(n)) for n in ("first_step_s", "clhines_s", "neuron_s", "core_s")]
        if why and why != "(1)":
            words = f"{words[:-4]}its {why}.mod does not compile |"
            found = found[:-1]
        if why == "(1)":
            words = f"| {label} | {{}} | {on} | {stop} | {{}} | {{}} | (1) | {{}} |"
            del found[3]
        yield Quote(NEURON, here, words, tuple(found))
    home, gpu = FILES["two cores"], FILES["H200"]

    def apart(file: str, model: str, shown: Shown) -> Figure:
        return Figure(file, lambda r: shown(r["clhines"]), {"model": model})

    worst = [
        apart(f, m, lambda r: upper(r["largest_mv"]))
        for f, m in ((home, "bmtk"), (gpu, "nrntraub"))
    ]
    yield prose(NEURON, here, "agree within {} mV (BMTK), {} mV (nrntraub) and less", *worst)
    until = [
        apart(gpu, "229585", field(n, "{:.0f}")) for n in ("equal_until_ms", "spikes_differ_at_ms")
    ]
    yield prose(NEURON, here, "until {} ms and have their first other spike after {} ms", *until)
    yield from fixed()
    traub = {"model": "nrntraub"}
    steps = [Figure(TWO_CORES, field(n, "{:,.0f}"), traub) for n in ("clhines_us", "neuron_us")]
    yield prose(NEURON, here, "nrntraub in {} µs for {}", *steps)
    yield from whole_models()
    yield from random_models()
    yield from runtimes()


def whole_models() -> Iterator[Quote]:
    """Yield what models with all their cells gave beside NEURON on MPI ranks."""
    here = "## Real models"

    def agree(name: str) -> Shown:
        return lambda r: f"{r['agreement']['whole'][name]:,}"

    traub, there = {"model": "nrntraub"}, "models-whole-nvidia-h200"
    words = (
        "all cells of nrntraub ({}, {} compartments), {} spikes of NEURON's {} are in its steps, "
        "in {} s"
    )
    sizes = [*(field(n, "{:,.0f}") for n in ("cells", "compartments"))]
    figures = [*sizes, agree("same_step"), agree("neuron"), field("stop_ms", "{:g}", 1e-3)]
    yield prose(NEURON, here, words, *(Figure(there, s, traub) for s in figures))
    times = (
        lambda r: f"{sum(r[k] for k in ('build_s', 'init_s', 'first_s', 'run_s')):.0f}",
        lambda r: f"{r['build_s'] + r['init_s']:.0f}",
        lambda r: f"{r['ranks']['ranks']}",
        lambda r: f"{r['ranks']['cores']}",
        lambda r: f"{r['ranks']['build_s'] + r['ranks']['run_s']:.0f}",
    )
    words = "takes {} s, {} of them NEURON's own building; {} ranks of NEURON on {} cores take {} s"
    yield prose(NEURON, here, words, *(Figure(there, s, traub) for s in times))
    dentate, there = {"model": "reduced_dentate"}, "models-whole-pocl-amd-epyc"
    words = (
        "dentate gyrus with all its {} cells, but without what joins MC to MC (a file that copies "
        "lack), on two cores: {} of {} spikes in {} ms"
    )
    figures = [sizes[0], agree("same_step"), agree("neuron"), field("stop_ms", "{:g}")]
    yield prose(NEURON, here, words, *(Figure(there, s, dentate) for s in figures))


def fixed() -> Iterator[Quote]:
    """Yield the table of models by fixed steps in place of variable ones."""
    for model, label in VARIABLE:

        def of(shown: Shown, model: str = model) -> Figure:
            return Figure(FIXED, shown, {"model": model})

        def of_both(shown: Shown, model: str = model) -> Figure:
            return Figure(FIXED, lambda r: ", ".join(map(shown, r["steps"])), {"model": model})

        yield row(
            NEURON,
            FIXED_STEPS,
            label,
            of(lambda r: ", ".join(str(x["spikes"]) for x in (r, *r["steps"]))),
            of(lambda r: f"{r['tight']['shift_ms']:.2f}"),
            of_both(field("shift_ms", "{:.2f}")),
            of_both(field("median_mv", "{:.1g}")),
            of(lambda r: fixed_here(r["steps"][0]["clhines"])),
        )

    def shift(model: str, key: str) -> Figure:
        def shown(r: Row) -> str:
            return f"{(r['steps'][0] if key == 'steps' else r[key])['shift_ms']:.1f}"

        return Figure(FIXED, shown, {"model": model})

    yield prose(
        NEURON,
        FIXED_STEPS,
        "moves spikes by up to {} ms in 3 s (149100) and {} ms in 0.5 s (112546)",
        *(shift(m, "steps") for m in ("149100", "112546")),
    )
    tight = shift("139653", "tight")
    yield prose(NEURON, FIXED_STEPS, "they move spikes by up to {} ms (139653)", tight)


def fixed_here(r: Row) -> str:
    """Return how `fixed_step=` agrees with NEURON's fixed steps."""
    which = "all" if r["same_step"] == r["spikes"] else f"{r['same_step']} of {r['spikes']}"
    return f"{which}, {upper(r['largest_mv'])}"


def random_models() -> Iterator[Quote]:
    """Yield what random models gave."""
    here, file, gpu = (
        "## What differs, and by how much",
        f"random-float64-pocl-intel-{XEON}",
        "random-float64-nvidia-h200",
    )
    spikes = Figure(file, lambda r: f"{sum(x['spikes'] for x in r['rows'] if same(x)):,}", {})
    yield prose(
        NEURON,
        here,
        "Of {} seeds on PoCL {} ran here and in NEURON ({} more are rejected here,"
        " and {} by NEURON), and have each of {} spikes at NEURON's time",
        Figure(file, lambda r: str(len(r["rows"])), {}),
        said(file, r"(\d+) equal"),
        Figure(file, lambda r: str(rejected(file)), {}),
        said(file, r"(\d+) failed"),
        spikes,
    )
    yield prose(
        NEURON,
        here,
        "Recorded voltages differ by up to {} mV (in the median of seeds {}),"
        " variables at the end by up to {} of their value ({})",
        said(file, r"voltage that is recorded: (\S+) mV"),
        said(file, r"median of seeds (\S+) mV"),
        said(file, r"variable at the end: ([^,]+),"),
        said(file, r"at the end: [^,]+, in the median (\S+?)\."),
    )
    yield prose(
        NEURON,
        here,
        "On the H200 {} ran of {}, and are equal in {} spikes",
        said(gpu, r"(\d+) equal"),
        said(gpu, r"(\d+) seeds of"),
        said(gpu, r"Of equal seeds: (\d+) spikes"),
    )


def same(r: Row) -> bool:
    """Whether a seed ran and is equal."""
    return not r.get("refused") and r.get("differs") is None and bool(r.get("ours"))


def rejected(file: str) -> int:
    """Count the seeds that are rejected, as expected or not."""
    found = (said(file, p).text() for p in (r"(\d+) rejected (?!as)", r"(\d+) rejected as"))
    return sum(int(n) for n in found)


def runtimes() -> Iterator[Quote]:
    """Yield the table of runtimes."""
    for label, platform, version in (
        ("PoCL | 3.0-rc2 | pip, `'.[pocl]'`", "Portable Computing Language", "3.0-rc2"),
        (
            "PoCL | 3.1+debian | Debian 12, `pocl-opencl-icd`",
            "Portable Computing Language",
            r"3.1\+debian",
        ),
        (
            "Intel's CPU runtime | 2026.22.10.0.01_160000 | "
            "pip, `intel-opencl-rt` and `intel-cmplr-lib-rt`",
            r"Intel\(R\) OpenCL",
            "2026",
        ),
    ):
        start = rf"{platform} \| {version}\S* "
        found = [said("runtimes", start + r"\| \d+ " * k + r"\| (\d+)") for k in range(3)]
        yield row(SUPPORTED, "## Runtimes", label, *found)


def frameworks() -> Iterator[Quote]:
    """Yield the tables of scripts of frameworks with the switch on and off."""

    def shown(name: str, form: str) -> Shown:
        return lambda r: form.format(r[name]) if name in r else "-"

    counts = [shown(name, "{:,.0f}") for name in ("cells", "neuron_spikes", "same_step")]
    of_large = [shown(name, "{:.0f}") for name in ("neuron_seconds", "first_seconds", "seconds")]
    times = "neuron_seconds", "core_seconds", "first_seconds", "seconds"
    of_small = [shown("dv", "{:.1e}"), *(shown(name, "{:.1f}") for name in times)]
    of_more = [of_small[k] for k in (0, 1, 3, 4)]
    for file, after, names, more in (
        ("frameworks-large-pocl-amd-epyc", FRAMEWORKS, LARGE, of_large),
        ("frameworks-pocl-amd-epyc", FRAMEWORKS, EXAMPLES, of_small),
        ("frameworks-more-pocl-amd-epyc", TRIED, MORE, of_more),
    ):
        for label, name in names.items():
            figures = (Figure(file, s, {"name": name}) for s in (*counts, *more))
            yield row(SWITCH, after, label, *figures)
    ended = (f"{key}_ended" for key in ("neuron", "ranks", "core", "first"))
    of_last = [shown(name, "{:.1f}") for name in (*ended, "ended")]
    of_gpu = [*of_last, shown("here_ranks_ended", "{:.1f}")]
    for device, labels, form in (
        ("pocl-amd-epyc", LAST, of_last), ("nvidia-h200", LAST_GPU, of_gpu),
    ):  # fmt: skip
        for label, name in labels.items():
            figures = (Figure(f"frameworks-last-spike-{device}", s, {"name": name}) for s in form)
            yield row(SWITCH, SPIKES, label, *figures)


def _scripts(file: str, *outcomes: str) -> Figure:
    """Return how many scripts have one of some outcomes."""

    def shown(result: Row) -> str:
        found = (o["scripts"] for o in result["outcomes"] if o["outcome"] in outcomes)
        return str(sum(found) or "-")

    return Figure(file, shown, {})


def unseen() -> Iterator[Quote]:
    """Yield the same of repositories that nobody had looked at: before, and after mends."""
    before, now = (f"repositories-unseen{x}-pocl-amd-epyc" for x in ("-before", ""))
    words = "Of {} scripts that NEURON runs {} were equal, {} went by NEURON's own steps, {} were"
    first = (_scripts(before, *x) for x in (EVERY, EQUAL, OWN, REJECTED))
    yield prose(SWITCH, PUBLISHED, words, *first)
    yield prose(SWITCH, PUBLISHED, "{} failed", _scripts(before, *WRONG))
    words = "Since mends {} are equal, {} go by NEURON's own steps, {} are rejected and {} fail"
    last = (_scripts(now, *x) for x in (EQUAL, OWN, REJECTED, WRONG))
    yield prose(SWITCH, PUBLISHED, words, *last)
    before, now = (f"repositories-unseen-2{x}-pocl-amd-epyc" for x in ("-before", ""))
    words = "of {} scripts {} were equal, {} went by NEURON's own steps, {} were"
    first = (_scripts(before, *x) for x in (EVERY, EQUAL, OWN, REJECTED))
    yield prose(SWITCH, PUBLISHED, words, *first)
    wrong = (_scripts(before, *x) for x in (WRONG[::2], WRONG[1::2]))
    yield prose(SWITCH, PUBLISHED, "{} differed from NEURON without a word, and {} ended", *wrong)
    words = "Since mends {} of these are equal, {} go by NEURON's own steps, {} are"
    yield prose(SWITCH, PUBLISHED, words, *(_scripts(now, *x) for x in (EQUAL, OWN, REJECTED)))
    yield from _draws()
    words = "Of the first draw's {} distinct .mod files {} run"
    yield prose(SWITCH, PUBLISHED, words, *_mod_files("coverage-unseen"))
    words = "Of their {} distinct .mod files {} run"
    yield prose(SWITCH, PUBLISHED, words, *_mod_files("coverage-unseen-2"))


def _mod_files(file: str) -> tuple[Figure, Figure]:
    """Return how many .mod files a draw has, and how many of them run."""
    files, run = (Figure(file, field(n, "{:,.0f}"), {}) for n in ("files", "run"))
    return files, run


def _homes(file: str) -> Figure:
    """Return of how many repositories the .mod files of a draw are."""
    return Figure(file, lambda found: str(len(found["repositories"])), {})


def _draw(file: str, first: str, wrong: str, last: str) -> Iterator[Quote]:
    """Yield the counts of a draw in three sentences: of all outcomes, of faults, and of now."""
    before, now = (f"repositories-unseen-{file}{x}-pocl-amd-epyc" for x in ("-before", ""))
    own = (*OWN, f"{OWN[0]}, by fixed_step=")
    outcomes = (*EVERY, own[1]), EQUAL, own, REJECTED
    yield prose(SWITCH, PUBLISHED, first, *(_scripts(before, *x) for x in outcomes))
    faults = (WRONG[::2], WRONG[1::2])[: wrong.count("{}")]
    if wrong:
        yield prose(SWITCH, PUBLISHED, wrong, *(_scripts(before, *x) for x in faults))
    yield prose(SWITCH, PUBLISHED, last, *(_scripts(now, *x) for x in outcomes[1:]))


def _draws() -> Iterator[Quote]:
    """Yield the counts of the draws of scripts after the second, and of their .mod files."""
    equal = "{} were equal, {} went by NEURON's own steps, {} were rejected"
    now = "{} are equal, {} go by NEURON's own steps, {} are rejected"
    differed = "and {} differed without a word"
    yield from _draw("3", f"Of its {{}} scripts {equal}", differed, f"With these mends {now}")
    both = "{} differed without a word, and {} took too long"
    yield from _draw("4", f"Of its {{}} scripts of NEURON {equal}", both, f"With mends {now}")
    yield from _draw("5", f"Of its {{}} scripts that do run {equal}", "", f"With a mend {now}")
    yield from _draw("7", f"Of its {{}} scripts that ran {equal}", "", f"Counted again {now}")
    words = "Of this draw's {} distinct .mod files {} run"
    yield prose(SWITCH, PUBLISHED, words, *_mod_files("coverage-unseen-3"))
    fourth, fifth = "coverage-unseen-4", "coverage-unseen-5"
    yield prose(SWITCH, PUBLISHED, "until {} had such files", _homes(fourth))
    words = "Of its {} distinct .mod files {} ran, counted once"
    yield prose(SWITCH, PUBLISHED, words, *_mod_files(fourth))
    files, run = _mod_files(fifth)
    words = "Of its {} distinct .mod files of {} repositories {} ran, counted once"
    yield prose(SWITCH, PUBLISHED, words, files, _homes(fifth), run)


def repositories() -> Iterator[Quote]:
    """Yield how many scripts of published models have which outcome."""

    def of(*names: str) -> Figure:
        return _scripts("repositories-pocl-amd-epyc", *names)

    def scripts(which: str) -> Figure:
        """Return how many scripts of NEURON there are, and how many of them it runs, or not."""

        def shown(result: Row) -> str:
            rows = [r for r in result["rows"] if r.get("why") != ["no script of NEURON"]]
            ran = sum(r["outcome"] != "NEURON runs nothing" for r in rows)
            return str({"all": len(rows), "ran": ran, "not": len(rows) - ran}[which])

        return Figure("repositories-pocl-amd-epyc", shown, {})

    for label, name in OUTCOMES.items():
        yield row(SWITCH, PUBLISHED, label, of(name))
    yield row(SWITCH, PUBLISHED, "different, or ended by an error", of(*WRONG))
    refused = of("refused", "refused, by fixed_step=")
    words = "Of {} scripts of NEURON {} run there"
    yield prose(SWITCH, PUBLISHED, words, scripts("all"), scripts("ran"))
    yield prose(SWITCH, PUBLISHED, "Of the {} that are rejected", refused)
    yield prose(SWITCH, PUBLISHED, "The {} that NEURON does not run", scripts("not"))
