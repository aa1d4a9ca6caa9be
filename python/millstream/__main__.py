"""The command ``millstream``."""

import signal
import sys

from millstream import _core


def main() -> None:
    """Run the command line of the process and exit with its code."""
    # The command handles interrupts itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.run_command(["millstream", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
