"""Which result each figure of README and docs is from, and what each result measures.

`bench.figures` compares them. A row of a table is its label and its cells; an entry of prose is
words of the page with ``{}`` for each figure. What is not in the result is ``-`` on the page.
`solves`, `simulations` and `models` have the entries.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Quote, unnamed
from bench.quoted import models, papers, simulations, sizes, solves
from bench.quoted.entries import (
    INDEX,
    MACHINES,
    NEURON,
    PAPERS,
    README,
    SIMULATING,
    SIZE,
    SPEED,
    SUPPORTED,
    SWITCH,
)

PAGES = (
    README, INDEX, SIZE, SPEED, NEURON, SUPPORTED, PAPERS, SIMULATING, SWITCH, MACHINES,
)  # fmt: skip
QUOTES: tuple[Quote, ...] = (
    *solves.solves_on_gpu(),
    *solves.solves_on_cpus(),
    *solves.several_devices(),
    *solves.calls_from_numpy(),
    *simulations.rings(),
    *simulations.cells(),
    *simulations.variants(),
    *simulations.points(),
    *simulations.own_cells(),
    *models.models(),
    *models.aims(),
    *models.starts(),
    *models.gaps(),
    *models.frameworks(),
    *models.repositories(),
    *models.unseen(),
    *sizes.sizes(),
    *papers.papers(),
)
SECTIONS = {  # of a page: what has figures of results
    README: ["## How fast"],
    INDEX: ["## How fast"],
    SIZE: [""],
    SPEED: [""],
    NEURON: ["## Real models", models.FIXED_STEPS],
    SUPPORTED: ["## Runtimes"],
    SIMULATING: [],
    SWITCH: [models.FRAMEWORKS, models.PUBLISHED],
    MACHINES: [simulations.OWN_CELLS],
    PAPERS: [papers.REPORT, papers.BATCH, papers.REVIEW, "### All of the report"],
}
GIVEN = [  # what is no result: what was asked for, and sizes of devices
    r"[Ss]teps of 0\.025 ms",
    r"pieces of 10 ms on",
    r"0\.025 and 0\.005 ms",
    r"step of 0\.025 ms moves",
    r"steps of 0\.005 ms",
    r"up to 0\.025 ms later",
    r"systems of 64 rows",
    r"in 12 ms with a spike",
    r"where all delays are 5 ms",
    r"equal to 1e-6 mV",
    r"three protocols of 1 s",
    r"differ by up to 3 %",
    r"batches above 139 GB",
    r"a GPU 1\.5 times the solve",
    r"20 µs; on a CPU",
    r"in place, 1\.5 times the solve",
    r"in 95 % of 300 traces",
    r"of 300 ms at most",
    r"voltages to 1e-6 mV",
    r"rusticl on llvmpipe .*",  # a test of the table has it
]


def unnamed_in(page: str, text: str) -> Iterator[str]:
    """Yield a line for each figure of a page that no entry names."""
    quotes = [q for q in QUOTES if q.page == page]
    yield from (f"{page}: {line}" for line in unnamed(quotes, text, SECTIONS[page], GIVEN))


# -- what results measure ----------------------------------------------------------------------

CONTRACTION = [
    "kernels/by_segment",
    "kernels/common/segment_registers.mako",
    "clhines/plan/by_segment",
]
CELLS = [
    *CONTRACTION,
    "kernels/by_cell",
    "kernels/literature",
    "clhines/plan/by_cell",
    "clhines/literature",
]
METHODS = [*CELLS, "kernels/by_branch", "clhines/plan/by_branch"]
FINE = [
    "kernels/by_branch/fine.mako",
    "clhines/plan/by_branch/fine.py",
    "clhines/plan/transforms.py",
]
CPU = ["kernels/by_branch/fine_vector.mako", "clhines/plan/by_branch/fine_vector.py"]
CALLS = ["clhines/solve/engines/hosted.py", "clhines/device/copies.py"]
GPU_EPOCHS = [
    "kernels/simulate/epoch_*.mako",
    ":!kernels/simulate/epoch_vector.mako",
    "kernels/common/epoch_*",
    "kernels/common/instances_*",
    "kernels/common/segment_*",
    ":!kernels/common/segment_registers.mako",
    "kernels/common/node_*",
    "kernels/common/rate*",
    "kernels/common/table_rows.mako",
]
CPU_EPOCHS = ["kernels/simulate/epoch_vector.mako"]
STEPS = ["kernels/simulate/steps.mako", "kernels/common/arena_*", ":!*/arena_vectors.mako"]
BLOCKS = ["kernels/simulate/blocks.mako", *STEPS[:2]]
MEASURED = {  # what a measure runs on GPUs, and on CPUs
    "peers": ([*METHODS, f":!{CPU[0]}"], [*METHODS, "clhines/device/pocl.py"]),
    "solve": ([*METHODS, f":!{CPU[0]}"], [*METHODS, "clhines/device/pocl.py"]),
    "methods": ([*METHODS, f":!{CPU[0]}"], METHODS),
    "accuracy": ([*METHODS, f":!{CPU[0]}"], METHODS),
    "reach": (CONTRACTION, METHODS),
    "devices": (CONTRACTION, METHODS),
    "options": (METHODS, METHODS),
    "calls": ([*CONTRACTION, *CALLS], [*CPU, *CALLS]),
    "share": (["bench/measures/share.py"], ["bench/measures/share.py"]),  # no kernels of ours
    "plan": (["clhines/plan", "clhines/literature"], ["clhines/plan", "clhines/literature"]),
    "ring": (GPU_EPOCHS, CPU_EPOCHS),
    "scale": (GPU_EPOCHS, CPU_EPOCHS),
    "cells": ([*GPU_EPOCHS, *STEPS], [*CPU_EPOCHS, *BLOCKS]),
    "cells-peers": ([*GPU_EPOCHS, *STEPS], [*CPU_EPOCHS, *STEPS]),  # texts alone
    "variants": ([*GPU_EPOCHS, "kernels/simulate/features.mako"], CPU_EPOCHS),
    "features": (["kernels/simulate/features.mako"], ["kernels/simulate/features.mako"]),
    "models": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "turns": ([*GPU_EPOCHS, *STEPS], [*CPU_EPOCHS, *BLOCKS]),
    "models-copies": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "models-whole": ([*GPU_EPOCHS, *STEPS, "clhines/neuron"], [*BLOCKS, "clhines/neuron"]),
    "models-spread": ([*GPU_EPOCHS, "clhines/neuron", "clhines/simulate/ranks"], []),
    "fixed": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "starts": ([*GPU_EPOCHS, *STEPS, "clhines/neuron"], [*CPU_EPOCHS, *BLOCKS, "clhines/neuron"]),
    "pieces": ([*GPU_EPOCHS, *STEPS, "clhines/neuron"], [*BLOCKS, "clhines/neuron"]),
    "pieces-loops": ([*GPU_EPOCHS, *STEPS, "clhines/neuron"], [*BLOCKS, "clhines/neuron"]),
    "frameworks": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "repositories": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "random": ([*GPU_EPOCHS, *STEPS], BLOCKS),
    "spikes": (["kernels/simulate/delivery.mako"], ["kernels/simulate/delivery.mako"]),
    "synapses": (["kernels/simulate/delivery.mako"], ["kernels/simulate/delivery.mako"]),
    "points": (GPU_EPOCHS, [*CPU_EPOCHS, "clhines/simulate/cpu/vectors.py"]),
    "tridiagonal": ([*METHODS, f":!{CPU[0]}"], METHODS),
    "coverage": (["clhines/mechanisms/nmodl"], ["clhines/mechanisms/nmodl"]),
    "checks": ([*CPU_EPOCHS, *BLOCKS], [*CPU_EPOCHS, *BLOCKS]),
    "runtimes": (["kernels"], ["kernels"]),
    "papers": (CELLS, METHODS),
    "papers-nvidia-h200/batch-13": ([*CELLS, "kernels/by_branch/levels.mako"], []),
    "papers-nvidia-h200/batch-14": ([*CELLS, "kernels/by_branch/levels.mako"], []),
    "papers-nvidia-h200/report-": ([*CELLS, *FINE], []),
    "papers-nvidia-h200/report-4.1": (["bench/made.py"], []),  # counted
    "papers-nvidia-h200/review-4": (["kernels/simulate/delivery.mako"], []),
}


def measured_by(name: str) -> list[str]:
    """Return what a result measures, as git takes it: paths, and those left out."""
    longest = max((k for k in MEASURED if name.startswith(k)), key=len)
    gpu, cpu = MEASURED[longest]
    return gpu if "nvidia" in name else cpu
