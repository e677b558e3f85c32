"""Modules of the specs of templates."""

PAIRS = {  # templates whose spec is not in the module of the same name
    "simulate/epoch_vector": "simulate.cpu.vectors",
    "simulate/blocks": "simulate.cpu.blocks",
    "simulate/features": "simulate.records.features",
    "simulate/reduced": "simulate.records.reduced",
    "simulate/plasticity": "simulate.events.plasticity",
    "simulate/spread": "simulate.state.changes",
    "simulate/taken": "simulate.engines.arena_run",
    "simulate/tiled": "simulate.state.arena",
    "simulate/epoch_by_instance": "simulate.gpu.spec",
    "simulate/artificial": "simulate.gpu.arena_epochs",
    "simulate/epoch_by_node": "simulate.gpu.spec",
    "simulate/epoch_constant": "simulate.gpu.spec",
    "simulate/epoch_factors": "simulate.gpu.spec",
    "simulate/steps": "simulate.kinds.spec",
    "simulate/delivery": "simulate.events.grid",
    "simulate/events": "simulate.events.grid_run",
    "around/permute": "solve.engines.loaded",
    "around/chains": "solve.chains",
    "around/floor": "device.timing",
    "around/passive": "simulate.passive",
}
