"""The command ``millstream``."""

import signal
import sys

from millstream import _core


def main() -> None:
    """Run the command line of the process and exit with its code."""
    words = sys.argv[1:]
    # Only these two may be for Ray, and all others start without its module.
    if "run" in words or "cluster" in words:
        from millstream import _ray_command

        if _ray_command.is_for_ray(words):
            sys.exit(_ray_command.main(words))
    # The command handles interrupts itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.run_command(["millstream", *words]))


if __name__ == "__main__":
    main()
