"""OpenCL templates of clhines; `clhines.render` reads them from here."""
