"""Code of a model that NEURON runs in each step.

`advance`: the model's own versions of stdrun.hoc's `advance()`, `step()` and `Plot()`; `gathered`:
functions that NEURON calls within each step, `access`: hooks that check what they read and set;
`step_values`: the values of each step of a run, put into NEURON's memory for such code. Adapters of
frameworks are in `frameworks`.
"""
