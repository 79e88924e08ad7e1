"""A list of device nodes that the processes of a cgroup may open, enforced by the kernel; the only way in cgroup version 2.

Strategy: the program has a few instructions for each rule, assembled here and loaded by the system call itself, so nothing has to be
compiled or installed. It needs root, or CAP_BPF and CAP_NET_ADMIN. It also refuses to make nodes that are not on the list. The program
lives as long as the cgroup that it is attached to.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable
from typing import NamedTuple

_CALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280}
_LOAD, _ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE = 15, 6
_ALLOW_MULTI = 2
_LICENSE = b"Apache-2.0"
_LOAD_WORD, _AND, _JUMP_UNLESS, _MOVE, _EXIT = 0x61, 0x57, 0x55, 0xB7, 0x95
_BLOCK, _CHARACTER = 1, 2
_RESULT, _CONTEXT, _KIND, _MAJOR, _MINOR = 0, 1, 2, 3, 4  # registers of the virtual machine


class DeviceRule(NamedTuple):
    """A device node that may be opened; `minor` None: all minors."""

    major: int
    minor: int | None
    block: bool = False


def node_of(path: str) -> DeviceRule | None:
    """Return the rule for the device node at a path; None if the path is not a device node."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        return None
    return DeviceRule(os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_ISBLK(found.st_mode))


def program(allowed: Iterable[DeviceRule]) -> bytes:
    """Return the instructions: access to the listed nodes is allowed, any other is refused."""
    code = [
        _instruction(_LOAD_WORD, _KIND, _CONTEXT, 0, 0),
        _instruction(_AND, _KIND, 0, 0, 0xFFFF),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4, 0),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8, 0),
    ]
    for node in sorted(set(allowed), key=str):
        tests = [(_KIND, _BLOCK if node.block else _CHARACTER), (_MAJOR, node.major)]
        tests += [(_MINOR, node.minor)] if node.minor is not None else []
        for number, (register, value) in enumerate(tests):
            code.append(_instruction(_JUMP_UNLESS, register, 0, len(tests) - number + 1, value))
        code += [_instruction(_MOVE, _RESULT, 0, 0, 1), _instruction(_EXIT)]
    return b"".join((*code, _instruction(_MOVE, _RESULT, 0, 0, 0), _instruction(_EXIT)))


def _instruction(operation: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", operation, target | source << 4, offset, value)


def attach(group: str, allowed: Iterable[DeviceRule]) -> None:
    """Let processes in the cgroup, and those below it, open listed nodes only. Raises `OSError`."""
    code = program(allowed)
    instructions, license_ = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(_LICENSE)
    words = struct.pack(
        "<IIQQ", _CGROUP_DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(license_)
    )
    loaded = _bpf(_LOAD, words)
    try:
        directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_ATTACH, struct.pack("<IIII", directory, loaded, _CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(directory)
    finally:
        os.close(loaded)


def _bpf(command: int, words: bytes) -> int:
    number = _CALL.get(platform.machine())
    if number is None:
        raise OSError(f"the number of the system call bpf is not known for {platform.machine()}")
    attributes = ctypes.create_string_buffer(words.ljust(128, b"\0"), 128)
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, command, attributes, 128))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
