"""HighwayHash of 64 bits (Alakuijala, Cox, Wassenberg), by which the NATS server checks its records. Pure."""

from __future__ import annotations

from struct import Struct

_WORDS = Struct("<4Q")
_ALL = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF
_FIRST = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_SECOND = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_PACKET = 32


class Highway:
    """The hash under one key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        words = _WORDS.unpack(key)
        self._begin = (
            [first ^ word for first, word in zip(_FIRST, words, strict=True)],
            [second ^ _swapped(word) for second, word in zip(_SECOND, words, strict=True)],
        )

    def digest(self, data: bytes) -> bytes:
        """Hash of the data, eight bytes."""
        state = [list(self._begin[0]), list(self._begin[1]), list(_FIRST), list(_SECOND)]
        whole = len(data) - len(data) % _PACKET
        for packet in _WORDS.iter_unpack(data[:whole]):
            _update(state, packet)
        if whole < len(data):
            _remainder(state, data[whole:])
        one, two, left, right = state
        for _ in range(4):
            _update(state, (_swapped(one[2]), _swapped(one[3]), _swapped(one[0]), _swapped(one[1])))
        total: int = (one[0] + two[0] + left[0] + right[0]) & _ALL
        return total.to_bytes(8, "little")


def _update(state: list[list[int]], packet: tuple[int, ...]) -> None:
    one, two, left, right = state
    for i in range(4):
        two[i] = (two[i] + left[i] + packet[i]) & _ALL
        left[i] ^= (two[i] & _LOW) * (one[i] >> 32)
        one[i] = (one[i] + right[i]) & _ALL
        right[i] ^= (one[i] & _LOW) * (two[i] >> 32)
    _zip(two, one)
    _zip(one, two)


def _zip(source: list[int], target: list[int]) -> None:
    """Add the bytes of `source`, in an order that mixes them best, to `target`."""
    for i in (0, 2):
        low, high = source[i], source[i + 1]
        target[i] = (
            target[i]
            + (
                (((low & 0xFF000000) | (high & 0xFF00000000)) >> 24)
                | (((low & 0xFF0000000000) | (high & 0xFF000000000000)) >> 16)
                | (low & 0xFF0000)
                | ((low & 0xFF00) << 32)
                | ((high & 0xFF00000000000000) >> 8)
                | ((low << 56) & _ALL)
            )
        ) & _ALL
        target[i + 1] = (
            target[i + 1]
            + (
                (((high & 0xFF000000) | (low & 0xFF00000000)) >> 24)
                | (high & 0xFF0000)
                | ((high & 0xFF0000000000) >> 16)
                | ((high & 0xFF00) << 24)
                | ((low & 0xFF000000000000) >> 8)
                | ((high & 0xFF) << 48)
                | (low & 0xFF00000000000000)
            )
        ) & _ALL


def _remainder(state: list[list[int]], rest: bytes) -> None:
    one, two, _, _ = state
    size = len(rest)
    for i in range(4):
        one[i] = (one[i] + (size << 32) + size) & _ALL
        low, high = two[i] & _LOW, two[i] >> 32
        two[i] = _rotated(low, size) | (_rotated(high, size) << 32)
    fours, odd = size & ~3, size & 3
    packet = bytearray(_PACKET)
    packet[:fours] = rest[:fours]
    if size & 16:
        packet[28:32] = rest[size - 4 :]
    elif odd:
        packet[16:19] = bytes((rest[fours], rest[fours + (odd >> 1)], rest[size - 1]))
    _update(state, _WORDS.unpack(packet))


def _swapped(word: int) -> int:
    return (word >> 32) | ((word & _LOW) << 32)


def _rotated(half: int, bits: int) -> int:
    return ((half << bits) | (half >> (32 - bits))) & _LOW
