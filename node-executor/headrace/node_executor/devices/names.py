"""Short names of GPU models for what drivers call `NVIDIA A100-SXM4-80GB` and the like. Pure.

A name is the chip and the memory by which it is sold: `A100-80GB`, `H200-141GB`, `RTX-4090-24GB`, `MI300X-192GB`.
"""

from __future__ import annotations

import re

_SOLD = (2, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 180, 192, 256, 288)
"""Sizes in GB; a driver shows a little less, because it uses some memory itself."""

_NOISE = re.compile(
    r"nvidia|amd|instinct|radeon|tesla|geforce|quadro|graphics|gpu|generation|edition|hbm\w*|pcie|sxm\d*|oam|nvl\d*|\d+gb",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(\d+) ?GB\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9.]+")


def model_name(reported: str, memory: int) -> str:
    """Return the name of a model that a driver calls `reported` and that shows `memory` MiB."""
    words = [word for word in _WORD.findall(reported) if _NOISE.fullmatch(word) is None]
    return f"{'-'.join(words) or 'GPU'}-{sold_as(reported, memory)}GB"


def sold_as(reported: str, memory: int) -> int:
    """Return the GB in the name, else those that the memory was sold as."""
    size = _SIZE.search(reported)
    if size:
        return int(size[1])
    return next((gigabytes for gigabytes in _SOLD if gigabytes * 1024 >= memory), -(-memory // 1024))


def short_names(uuids: list[str]) -> dict[str, str]:
    """Return a name for each UUID that is stable as long as the device exists: `GPU-a1b2c3d4`, or all of it if that is ambiguous."""
    short = {uuid: re.sub(r"^([A-Za-z]+-)?([0-9A-Fa-f]{8}).*$", r"\1\2", uuid) for uuid in uuids}
    unique = len(set(short.values())) == len(short)
    return short if unique else {uuid: uuid for uuid in uuids}
