"""Code of a model that NEURON runs in each step, and values of a step in NEURON's memory.

`advance`: stdrun.hoc's `advance()`, `step()` and `Plot()` that the model replaces; `gathered`:
functions that NEURON calls within each step, `access`: hooks that see what they ask for;
`step_values`: values of each step of a run, put into NEURON's memory. Adapters of frameworks:
`frameworks`.
"""
