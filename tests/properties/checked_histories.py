"""A random history that is played with every check after every step."""

from __future__ import annotations

from headrace.simulate.world import World
from tests.unit.domain.snapshot import differences, kept, naive


def play(world: World) -> World:
    for _ in world.run():
        pass
    return world


class Checked(World):
    """A world whose every number is counted again whenever it comes to rest."""

    def run_until_stable(self) -> None:
        super().run_until_stable()
        assert differences(kept(self.state), naive(self.state)) == []
