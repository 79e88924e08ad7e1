"""Ledgers that the real deciders wrote in virtual time, with preemptions, holds and budgets in them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.bus.log import Message
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import encode
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def played(name: str) -> list[Message]:
    """The messages of a scenario that was played to its end."""
    world = World(read_scenario(read_tree((SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8"))))
    for _ in world.run():
        pass
    return world.log.messages_after(0)


def record(message: Message) -> Record:
    """What a message says."""
    return msgspec.json.decode(message.payload, type=Record)


def rewritten(message: Message, **changes: object) -> Message:
    """The same message, where its record says something else."""
    return message._replace(payload=encode(msgspec.structs.replace(record(message), **changes)))


def rechained(messages: list[Message]) -> list[Message]:
    """As an attacker who knows about the digests would leave them: every service's chain holds again, sequences follow each other."""
    ends: dict[str, str] = {}
    found = []
    for sequence, message in enumerate(messages, 1):
        original = record(message)
        prev = "" if original.by.startswith("node.") else ends.get(original.by, "")
        payload = encode(msgspec.structs.replace(original, prev=prev))
        ends[original.by] = digest(payload)
        found.append(message._replace(sequence=sequence, payload=payload))
    return found


def of(messages: tuple[Message, ...], by: str) -> list[int]:
    """Where a writer's records stand in the list."""
    return [place for place, message in enumerate(messages) if message.subject == f"hr.ledger.{by}"]
