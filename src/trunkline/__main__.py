"""`python -m trunkline` is the command `trunkline`."""

import sys

from trunkline.harness.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
