"""Child processes that end with this process."""

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
    """For `preexec_fn`: the kernel kills the child when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def group_dies_with_us(group: int) -> Iterator[None]:
    """Kill a group of processes, whoever their parents are, when the block ends or we are killed."""
    # the end of this process is the end of its input
    words = ["sh", "-c", f"read _; kill -s KILL -- -{group}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True):
        yield


@contextmanager
def meanwhile(call: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call a function every `every_s` seconds, in a thread, while the block runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def ended(process: subprocess.Popen[bytes], timeout_s: float) -> Iterator[None]:
    """End the group of a process when the block ends, also by an interrupt or a termination signal."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if process.stdin:
            process.stdin.close()  # some processes end at the end of their input
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        signal.signal(signal.SIGTERM, before)
