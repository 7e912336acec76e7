"""``python -m covdp``: the program `covdp`, where its script is not on the path."""

import sys

from covdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
