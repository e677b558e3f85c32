"""Methods with one work-group per chain."""
