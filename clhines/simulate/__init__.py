"""A model in time."""
