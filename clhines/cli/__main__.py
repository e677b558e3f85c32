"""`python -m clhines.cli`."""

import sys

from clhines.cli.main import main

sys.exit(main())
