"""Many parameter sets of one model.

`population`: `Population`, the public class. `parameters`: groups of the model divided by
parameters. `protocols`: stops and stimuli. `batches`: sets simulated at once. `result`: results.
"""
