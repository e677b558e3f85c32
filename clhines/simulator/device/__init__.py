"""Arrays and kernels for runs on a device, in addition to `solver.device`.

`compiler`: load PoCL's compiler early. `launches`: kernels with bound arguments, and concurrent
launches. `reads`: parts and copies of arrays, and values that the host reads with one wait.
"""
