"""Runs a program on a system without one family of addresses: `socket()` fails with EAFNOSUPPORT, as it does where the
kernel has no such family, and as systemd's RestrictAddressFamilies does it.

Usage: without-family.py AF_INET6 PROGRAM ARGUMENT...
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys

# Audit architecture, and number of the system call (linux/audit.h, asm/unistd.h).
ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.EAFNOSUPPORT


def filter_for(family):
    architecture, socket_call = ARCHITECTURES[platform.machine()]
    lines = [
        (LOAD_WORD, 0, 0, 4),
        (JUMP_IF_EQUAL, 0, 5, architecture),
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 3, socket_call),
        (LOAD_WORD, 0, 0, 16),
        (JUMP_IF_EQUAL, 0, 1, family),
        (RETURN, 0, 0, FAIL),
        (RETURN, 0, 0, ALLOW),
    ]
    return len(lines), b"".join(struct.pack("HBBI", *line) for line in lines)


count, code = filter_for(int(getattr(socket, sys.argv[1])))
buffer = ctypes.create_string_buffer(code, len(code))
# struct sock_fprog: a count, and after its padding an address.
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", count, ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
