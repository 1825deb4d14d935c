"""A network of a display's own: programs on it reach nobody outside, and nobody outside reaches them but through its keeper."""

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
    """Move this process, and what it will start, into a network of its own with nothing but a loopback; False where the kernel
    refuses, and then nothing has changed.  Wants no rights where users may make namespaces, as in Debian.
    """
    child = os.fork()  # tries it, for there is no way back from the middle
    if child == 0:
        os._exit(0 if _enter() else 1)
    return os.waitpid(child, 0)[1] == 0 and _enter()


def _enter() -> bool:
    libc, uid, gid = ctypes.CDLL(None), os.getuid(), os.getgid()
    try:
        if libc.unshare(_CLONE_NEWNET):  # whoever is not root may do so among users of his own: himself
            if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
                return False
            for name, said in {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}.items():
                Path("/proc/self", name).write_text(said)
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    except OSError:
        return False
    return True
