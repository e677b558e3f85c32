"""OpenCL and nothing else: devices, programs, copies and times."""
