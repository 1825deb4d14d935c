"""The process that runs a notebook's cells: ipykernel under the running Python, whatever is installed.

It is a new process, or a fork of one that has imported what notebooks import (`pipeline.warm`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import psutil

from coda_lib.processes import dies_with_its_parent

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Fork(psutil.Process):
    """A fork of this process that waits until it is told to become a kernel; it ends if that never happens.

    Made before this process starts threads or opens sockets, which do not survive a fork.
    """

    stdin = stdout = stderr = None  # as of a process that was started with this process' own

    def __init__(self) -> None:
        order, self._order = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(self._order)
            dies_with_its_parent()
            os.setsid()  # with children of its own it is signalled as a group
            _become_kernel(order)
        os.close(order)
        super().__init__(pid)

    def begin(self, arguments: list[str]) -> None:
        """Become the kernel of these arguments of ipykernel, in this process' present folder."""
        with os.fdopen(self._order, "w") as file:
            json.dump({"arguments": arguments, "folder": os.getcwd()}, file)

    def poll(self) -> int | None:
        """The exit code, or None while it runs: as of `subprocess.Popen`."""
        with suppress(psutil.TimeoutExpired):
            return self.wait(0)
        return None


def _become_kernel(order: int) -> None:
    with os.fdopen(order) as file:
        text = file.read()
    if not text:
        leave(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    from ipykernel.kernelapp import IPKernelApp, launch_new_instance

    given = json.loads(text)
    os.chdir(given["folder"])
    launch_new_instance(argv=[*given["arguments"], f"--IPKernelApp.parent_handle={os.getppid()}"])
    # the process' end closes its sockets; closing them while its threads still wait at them can abort it
    atexit.unregister(IPKernelApp.instance().close)
    leave(0)


def leave(code: int) -> NoReturn:
    """End a fork as `multiprocessing` does, without freeing what was imported, which would copy it."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def kernel_manager(folder: str, fork: Fork | None = None) -> type:
    """The class that starts the kernel: `fork`, or a new process with one BLAS thread.

    It talks over sockets in `folder` rather than over ports, which two stages could happen to choose alike.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from traitlets import Unicode

    class Manager(AsyncKernelManager):
        transport = Unicode("ipc")
        connection_file = Unicode(os.path.join(folder, "kernel.json"))

        @property
        def kernel_spec(self) -> KernelSpec:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            threads = dict.fromkeys(THREAD_VARIABLES, "1")
            return KernelSpec(argv=command, display_name="Python 3", language="python", env=threads)

        async def _async_interrupt_kernel(self) -> None:
            # at shutdown its cells have ended; a signal amid its last reply would be logged as an error
            if not self.shutting_down:
                await super()._async_interrupt_kernel()

        async def _async_launch_kernel(self, kernel_cmd: list[str], **how: Any) -> None:
            if not fork:
                await super()._async_launch_kernel(kernel_cmd, **how)
                return
            fork.begin(kernel_cmd[kernel_cmd.index("-f") :])
            self.provisioner.process = fork
            self.provisioner.pid = self.provisioner.pgid = fork.pid

    return Manager
