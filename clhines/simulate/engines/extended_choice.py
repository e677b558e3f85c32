"""The run of an extended network: on the host, by steps, or by epochs of whole cells."""

from __future__ import annotations

import logging
from typing import Any, cast

from clhines.device import devices, trust
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.model.copied import CopiedModel
from clhines.model.model import Model
from clhines.simulate.cpu.extended_blocks import ExtendedBlocks
from clhines.simulate.cpu.plan import plan_blocks
from clhines.simulate.engines.extended import ExtendedSteps
from clhines.simulate.engines.extended_reference import ExtendedReference
from clhines.simulate.engines.run import Request
from clhines.simulate.events.sources import wires_of
from clhines.simulate.gpu.extended_epochs import ExtendedEpochs, refusal
from clhines.simulate.state.extended_copies import CopiedSteps

_log = logging.getLogger(__name__)


def extended_run(
    model: Model, request: Request, whole: Forest | None = None
) -> ExtendedReference | ExtendedSteps:
    """Return what advances an extended network.

    On GPUs ``auto`` takes epochs where they can be taken; on CPUs steps, which are in vectors
    there, many of them in one launch where blocks of cells are expected to be faster so.

    Parameters
    ----------
    model : Model
    request : Request
    whole : Forest, optional
        Of the whole network, where `model` is a rank's share of it.

    Raises
    ------
    InputError
        The engine does not take the network.
    """
    if not isinstance(request.engine, str):
        raise InputError(
            "engine is a function; expected the name of one, as the network needs engine "
            "'steps' or 'reference'"
        )
    if request.engine == "reference":
        return ExtendedReference(model)
    assert request.queue is not None
    queue, given = request.queue, (request.queue, request.dtype, request.max_spikes)
    plain = request.method == "auto" and not request.options
    if request.engine == "epochs" and not plain:
        raise InputError("engine='epochs' uses no solver; method and its options are for 'steps'")
    alone = whole is None and not isinstance(model, CopiedModel)
    if request.engine == "epochs" and not alone:
        raise InputError(
            "engine='epochs' is for extended networks on one rank, without copies; expected 'steps'"
        )
    auto = request.engine == "auto" and plain and alone
    blocks_too = auto and devices.is_cpu(queue.device)
    auto &= not blocks_too
    if auto and not refusal(model):
        auto = trust.is_right(queue.device, "nmodl-epochs", request.dtype)
    if request.engine == "epochs" or auto:
        try:
            return ExtendedEpochs(model, *given)
        except InputError as error:
            if not auto:
                raise
            _log.info("engine steps (%s)", error)
    if blocks_too:
        assert model.extended is not None
        units = queue.device.max_compute_units
        blocks = plan_blocks(model, wires_of(model, model.extended), units)
        if blocks is not None and trust.is_right(queue.device, "nmodl-blocks", request.dtype):
            _log.info("%d blocks of cells, launches of %d steps", blocks.count, blocks.epoch)
            return ExtendedBlocks(model, blocks, *given)
    options = cast("dict[str, Any]", {**request.options, "method": request.method, "whole": whole})
    if isinstance(model, CopiedModel):
        return CopiedSteps(model, queue, request.dtype, max_spikes=request.max_spikes, **options)
    return ExtendedSteps(model, *given, **options)
