"""Methods with one work-item per branch."""
