"""Modules of the specs of templates."""

PAIRS = {  # templates whose spec is not in the module of the same name
    "simulator/blocks": "simulator.cpu.blocks",
    "simulator/features": "simulator.records.features",
    "simulator/reduced": "simulator.records.reduced",
    "simulator/plasticity": "simulator.events.plasticity",
    "simulator/spread": "simulator.state.changes",
    "simulator/taken": "simulator.events.event_list",
    "simulator/gradients": "simulator.gradients.kernels",
    "simulator/layers": "simulator.engines.steps",
    "simulate/linear": "simulate.engines.linear",
    "simulator/epoch_by_instance": "simulator.gpu.spec",
    "simulator/artificial": "simulator.gpu.artificial",
    "simulator/epoch_by_node": "simulator.gpu.spec",
    "simulator/epoch_constant": "simulator.gpu.spec",
    "simulator/epoch_factors": "simulator.gpu.spec",
    "simulator/steps": "simulator.kinds.spec",
    "simulator/delivery": "simulator.events.grid",
    "simulator/events": "simulator.events.grid_run",
    "solver/around/permute": "solver.engines.loaded",
    "solver/around/chains": "solver.chains.device",
    "solver/around/floor": "solver.device.timing",
}
