"""What users describe, and the arrays that it becomes; no OpenCL."""
