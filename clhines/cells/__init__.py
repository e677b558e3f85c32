"""Files and made-up trees, compartments, and the matrix that they become; NumPy only."""
