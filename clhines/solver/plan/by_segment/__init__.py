"""Methods with one work-item per segment of a branch."""
