"""Fuzz: seeded input to each reader; `command` runs it, one module a target, with its oracle."""
