"""A hall whose nodes stand in racks of blocks, and profiles of gangs that shall stand together."""

from __future__ import annotations

from headrace.contracts.documents.model import Topology
from tests.unit.domain.site import PROFILES, Site, gpus, policy, pool, profile

LEVELS = ("block", "rack")
NODES = {"n1": ("b1", "r1"), "n2": ("b1", "r1"), "n3": ("b1", "r2"), "n4": ("b2", "r1"), "n5": ("b2", "r1"), "n6": ("b2", "r1")}


def racked(*profiles: object, nodes: dict[str, tuple[str, str]] = NODES, devices: int = 2) -> Site:
    """A hall of racks, and a policy that may use these profiles as well."""
    links = tuple(type(policy().profiles[0])(name=one.name) for one in (*PROFILES, *profiles))
    site = Site(policy(profiles=links), pools=(pool(topology=LEVELS),))
    site.law(*profiles)
    for name, (block, rack) in nodes.items():
        site.node(name, devices, block=block, rack=rack)
    return site


def together(replicas: int, count: int = 2, **topology: str):
    return profile("together", gpus(count), replicas=replicas, topology=Topology(**topology))
