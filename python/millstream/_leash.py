"""A process of the command that ends when the one that started it does, however that ends.

``python -m millstream._leash FD ARGUMENT…`` is ``millstream ARGUMENT…``. FD is the reading end of a pipe whose other end only the starter has:
nobody writes, so what ends the waiting for a byte is the starter's end, SIGKILL included.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


class Leashed:
    """The process, and this side of the pipe."""

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        """Start ``millstream WORDS``; options are those of ``subprocess.Popen``."""
        reading, self._writing = os.pipe()
        try:
            command = [sys.executable, "-m", "millstream._leash", str(reading), *words]
            self.process: subprocess.Popen[str] = subprocess.Popen(command, pass_fds=(reading,), text=True, errors="replace", **options)
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def let_go(self) -> None:
        """End it, unless it has ended."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
        self.process.wait()


def _end_with(starter: int) -> None:
    while True:
        try:
            os.read(starter, 1)
        except InterruptedError:
            continue
        os._exit(1)


def _main() -> None:
    import threading

    from millstream import _core

    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    # The command handles interrupts itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.run_command(["millstream", *sys.argv[2:]]))


if __name__ == "__main__":
    _main()
