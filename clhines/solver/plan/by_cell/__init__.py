"""Methods with one work-item per cell."""
