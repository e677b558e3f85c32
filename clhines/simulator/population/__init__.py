"""Many parameter sets for one model.

`population`: `Population`, the public class. `parameters`: the model's groups, divided so that a
parameter sets whole groups. `protocols`: stops and stimuli. `batches`: sets simulated at once.
`result`: results.
"""
