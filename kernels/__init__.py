"""OpenCL templates of clhines; `clhines.device.templates` reads them from here."""
