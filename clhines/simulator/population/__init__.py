"""Many parameter sets of one model.

`population` is the face. It divides the groups of the model by `parameters`, reads `protocols`, and
simulates sets in `batches`, whose results `result` holds. `shares` has the workers of an executor
simulate shares of the sets.
"""
