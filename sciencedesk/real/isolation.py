"""What programs of one display reach: a network of their own, and where bubblewrap works, no other file."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

from coda_lib.paths import REPO

HOST = "127.0.0.1"
HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/mnt", "/media")  # empty in a sandbox
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def sandbox(home: Path) -> list[str]:
    """Words before a command, which then has a network of its own, and of this machine's files reads alone.

    Homes and temporary folders are empty for it, but for `home`, which it may write to, and the kit.  No
    words where bubblewrap is missing, or the kernel refuses it.
    """
    if not shutil.which("bwrap"):
        return []
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-net"]
    for path in dict.fromkeys((*HIDDEN, str(Path.home()))):
        words += ["--tmpfs", path] if os.path.isdir(path) and not os.path.islink(path) else []
    for path in dict.fromkeys((str(REPO), sys.prefix, sys.base_prefix)):
        words += ["--ro-bind", path, path]
    words += ["--bind", str(home), str(home), "--chdir", str(REPO)]
    works = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if works else []


def isolate() -> bool:
    """Move this process and its later children into a new network that has a loopback alone.

    False where the kernel refuses; then nothing has changed.  Needs no rights where users may create
    namespaces, as in Debian.
    """
    return can_isolate() and _enter()


def can_isolate() -> bool:
    """Whether `isolate` would succeed: a child tries it, since half of it cannot be undone."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _enter() else 1)
    return os.waitpid(child, 0)[1] == 0


def _enter() -> bool:
    libc, uid, gid = ctypes.CDLL(None), os.getuid(), os.getgid()
    try:
        if libc.unshare(_CLONE_NEWNET):  # without root's rights it needs a user namespace
            if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
                return False
            lines = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
            for name, line in lines.items():
                Path("/proc/self", name).write_text(line)
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    except OSError:
        return False
    return True
