"""Writes one digest of every byte that some drawn histories write: run in another process, it must be the same (`test_determinism`)."""

from __future__ import annotations

import sys
from hashlib import blake2b

from hypothesis import HealthCheck, Phase, given, settings

from headrace.simulate.world import World
from tests.properties.histories import scenarios


def digest_of(histories: int) -> str:
    """Over that many histories."""
    whole = blake2b(digest_size=16)

    @settings(
        max_examples=histories,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios())
    def play(scenario) -> None:
        world = World(scenario, judged=False)
        for _ in world.run():
            pass
        for message in world.log.messages_after(0):
            whole.update(message.payload)

    play()
    return whole.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest_of(int(sys.argv[1])))
