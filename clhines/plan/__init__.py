"""From a forest to a plan, without a device."""
