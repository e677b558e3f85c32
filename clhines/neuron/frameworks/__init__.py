"""Adapters of frameworks whose Python code runs in each step.

`step_code`: code that reads a model after each step; `bmtk`: the modules of BMTK; `potentials`:
LFPy's probes and NetPyNE's LFP.
"""
