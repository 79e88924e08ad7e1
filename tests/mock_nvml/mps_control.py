#!/usr/bin/env python3
"""Stands in for `nvidia-cuda-mps-control`: a daemon is a file in its pipe directory, and the mock of libcuda keeps to what stands in it.

It takes the commands that the executor gives, refuses what the real one refuses, and writes down what it was told.
"""

import ctypes
import os
import sys
from pathlib import Path

pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
daemon = pipe / "daemon"


def serve(servers: int) -> None:
    """Whether a server has the device, where the mock of libcuda sees it."""
    number = int((pipe / "device").read_text()[4:12], 16) & 0xFF
    ctypes.CDLL("libnvidia-ml.so.1").mockSet(number, b"mps", servers)


if sys.argv[1:] == ["-d"]:
    if daemon.exists():
        sys.exit("An instance of this daemon is already running")
    if not pipe.is_dir() or not os.environ.get("CUDA_VISIBLE_DEVICES"):
        sys.exit("Cannot find MPS pipe directory")
    (pipe / "device").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
    daemon.write_text("")
    serve(1)
    sys.exit(0)
if not daemon.exists():
    sys.exit("Cannot find MPS control daemon process")
for line in sys.stdin:
    with daemon.open("a") as commands:
        commands.write(line)
    command, *words = line.split()
    if command == "set_default_device_pinned_mem_limit":
        (pipe / "limit").write_text(words[1].removesuffix("M"))
    elif command == "quit":
        (pipe / "limit").unlink(missing_ok=True)
        daemon.rename(pipe / "was")
        serve(0)
