"""Targets of the fuzz, one module each, with its oracle; `test_fuzz.py` runs them."""
