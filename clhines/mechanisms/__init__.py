"""Mechanisms of the membrane from equations as text: channels, synapses, clamps."""

from clhines.mechanisms.builtin import BUILT_IN
from clhines.mechanisms.mechanism import Mechanism, mechanism
from clhines.mechanisms.noise import normal, normal_source, philox

__all__ = ["BUILT_IN", "Mechanism", "mechanism", "normal", "normal_source", "philox"]
