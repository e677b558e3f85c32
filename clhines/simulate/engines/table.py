"""Names of the engines that a user can ask for; `runs.choose_executor` makes them.

This module imports nothing, so that the command line can list them without OpenCL.
"""

ENGINES = {
    "auto": "epochs where it can, else steps",
    "epochs": "whole cells, many steps per kernel",
    "steps": "cells of any size",
    "reference": "NumPy on the host",
}
