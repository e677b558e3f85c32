"""OpenCL templates of clhines; `clhines.solver.plan.templates` reads them from here."""
