"""OpenCL templates of clhines; `clhines.solver.device.templates` reads them from here."""
