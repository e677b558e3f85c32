"""One MPI rank of `scale`, which on a CPU keeps to one core."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    case, out = arguments
    settings = json.loads(case)
    if settings["pin"]:  # before OpenCL is loaded: PoCL's threads then stay on this core
        cores = sorted(os.sched_getaffinity(0))
        rank = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
        os.environ["POCL_MAX_PTHREAD_COUNT"] = "1"
    from bench.measures import scale

    scale.measure_rank(settings, out)
