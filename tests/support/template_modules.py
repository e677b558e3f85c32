"""Modules of the specs of templates."""

PAIRS = {  # templates whose spec is not in the module of the same name
    "simulate/epoch_vector": "simulate.cpu.vectors",
    "simulate/extended_blocks": "simulate.cpu.extended_blocks",
    "simulate/currents": "simulate.records.currents",
    "simulate/features": "simulate.records.features",
    "simulate/reduced": "simulate.records.reduced",
    "simulate/plasticity": "simulate.events.plasticity",
    "simulate/spread": "simulate.state.spread",
    "simulate/steps": "simulate.engines.steps",
    "simulate/tiled": "simulate.state.tiled",
    "simulate/epoch": "simulate.gpu.spec",
    "simulate/extended": "simulate.kinds.calls",
    "simulate/delivery": "simulate.events.grid_spec",
    "simulate/events": "simulate.state.state",
    "simulate/record": "simulate.state.state",
    "around/permute": "solve.loaded",
    "around/residual": "solve.mixed",
    "around/floor": "device.timing",
    "around/passive": "simulate.passive",
}
