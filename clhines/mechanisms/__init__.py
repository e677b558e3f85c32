"""Mechanisms of the membrane: their language, and the units that it converts."""
