"""Arrays and kernels of runs on a device, beyond `solver.device`.

`compiler`: PoCL's compiler, loaded early. `launches`: kernels with bound arguments, and launches
side by side. `reads`: parts and copies of arrays, and values that the host reads with one wait.
"""
