"""From a plan, a queue and arrays to the solution."""
