"""python -m hrnn: the command line, for torchrun and wherever scripts are not on the path."""

import sys

from hrnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
