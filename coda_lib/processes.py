"""Programs that this one starts and that must not outlive it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PR_SET_PDEATHSIG = 1


def dies_with_its_parent() -> None:
    """For `preexec_fn`: the kernel ends the program with SIGKILL when the thread that started it ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def meanwhile(do: Callable[[], None], every_s: float) -> Iterator[None]:
    """Do something again and again, in a thread, while the block runs."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(every_s):
            do()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def ended(process: subprocess.Popen[bytes], patience_s: float) -> Iterator[None]:
    """End a process that leads a group, and the group, on every way out, an interrupt or a termination signal included."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if process.stdin:
            process.stdin.close()  # some end by themselves then
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        signal.signal(signal.SIGTERM, before)
