"""Methods with one work-item per cell, or a few."""
