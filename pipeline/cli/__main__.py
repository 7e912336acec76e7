"""`python -m pipeline.cli` is `covdp`."""

import sys

from pipeline.cli import main

sys.exit(main())
