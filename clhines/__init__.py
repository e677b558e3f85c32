"""clhines: batches of Hines matrices solved on any OpenCL device."""
