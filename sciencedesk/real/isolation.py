"""A network for one display: its programs reach nothing outside, only `display_process` reaches them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

HOST = "127.0.0.1"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def isolate() -> bool:
    """Move this process and its later children into a new network that has a loopback alone.

    False where the kernel refuses; then nothing has changed.  Needs no rights where users may create
    namespaces, as in Debian.
    """
    child = os.fork()  # tries it first: half of it cannot be undone
    if child == 0:
        os._exit(0 if _enter() else 1)
    return os.waitpid(child, 0)[1] == 0 and _enter()


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
