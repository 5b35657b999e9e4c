"""`python -m lifesafe.cli`."""

import sys

from lifesafe.cli import main

if __name__ == "__main__":
    sys.exit(main())
