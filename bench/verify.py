"""Verification: how many facts a second of CPU are looked at, for the records alone (chains and seals) and with every decision made again.

In process, with the log in memory: the records are those that the real deciders wrote, through the real codec, in virtual time. Jobs of
four sizes from eight policies come to a hall of nodes for some hours, run and end, and waiting ones are granted what comes free. Each
look is timed by itself: reading from a disk or over a network is not in it.
"""

from __future__ import annotations

import random
import time
from base64 import b64encode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.options import options
from headrace.audit.seals import SEALED_MAX, RecordRange, sealed
from headrace.audit.verify import LedgerVerifier
from headrace.bus.log import Message
from headrace.contracts.documents import model as d
from headrace.contracts.facts import LedgerSealedV1
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.simulate.scenario import Moment, Nodes, Scenario, Submit
from headrace.simulate.virtual_system import ENGINE
from headrace.simulate.world import World

NODES, GPUS = 50, 8
POLICIES = 8
SIZES = (GPU_UNITS // 4, GPU_UNITS // 2, GPU_UNITS, 2 * GPU_UNITS)
AT_ONCE = 32
"""Jobs of one submission; one comes every 20 seconds, so that two thirds of the GPUs are used, and no job has to yield."""


class Signer:
    """A key of the bench's own."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public = b64encode(self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    def sign(self, statement: bytes) -> str:
        return b64encode(self._private.sign(statement)).decode()


def history(jobs: int, seed: int) -> list[Message]:
    """The records of this number of jobs."""
    chance = random.Random(seed)
    profiles = tuple(
        d.Profile(name=f"p{number}", request={GPU: size, CPU: 1_000, MEMORY: 8_192}, pools=("hall",))
        for number, size in enumerate(SIZES)
    )
    links = tuple(d.PolicyProfile(name=profile.name) for profile in profiles)
    policies = tuple(
        d.Policy(name=f"q{number}", profiles=links, reservation={GPU: NODES * GPUS * GPU_UNITS // POLICIES})
        for number in range(POLICIES)
    )
    timeline = [
        Moment(
            at=20 * SECOND * number,
            submit=Submit(
                name=f"j{number}",
                queue=f"q{chance.randrange(POLICIES)}/p{chance.randrange(len(SIZES))}",
                count=AT_ONCE,
                user="ann",
                duration=chance.randrange(1, 6) * MINUTE,
            ),
        )
        for number in range(jobs // AT_ONCE)
    ]
    pool = d.Pool(name="hall", selector={"site": "hall"})
    scenario = Scenario(
        documents=d.Documents(pools=(pool,), profiles=profiles, policies=policies),
        nodes=(
            Nodes(name="n", count=NODES, labels={"site": "hall"}, gpus=GPUS, gpu_model="H100-80GB", cpus=512, memory=1 << 30),
        ),
        timeline=tuple(timeline),
    )
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    world.play_out(world.now + 60 * MINUTE)
    return world.log.messages_after(0)


def seals_of(messages: list[Message]) -> list[LedgerSealedV1]:
    """Seals over all of them that are whole."""
    stretch, made, signer = RecordRange(), list[LedgerSealedV1](), Signer()
    for message in messages:
        stretch.add(message)
        if len(stretch) == SEALED_MAX:
            made.append(sealed(stretch, SEALED_MAX, made[-1] if made else None, signer))
            stretch.drop(SEALED_MAX)
    return made


def verify(messages: list[Message], seals: list[LedgerSealedV1], engine: str | None) -> tuple[float, LedgerVerifier]:
    """Seconds of CPU, and what was found."""
    began = time.process_time()
    verifier = LedgerVerifier(engine, kept=seals)
    verifier.take(messages)
    verifier.finish()
    return time.process_time() - began, verifier


def measure(jobs: int, seed: int = 1) -> dict[str, float]:
    """Facts/s for records alone, with the fold, with decisions; and how much there was of it."""
    messages = history(jobs, seed)
    seals = seals_of(messages)
    alone, _ = verify(messages, seals, None)
    folded, _ = verify(messages, seals, "another")
    whole, verifier = verify(messages, seals, ENGINE)
    report = verifier.report()
    if report.found or report.stopped:
        raise AssertionError(report)
    return {
        "facts": report.facts,
        "records": report.records,
        "decisions": report.recomputed,
        "decision_facts": report.decision_facts,
        "records_facts_per_s": report.facts / alone,
        "records_per_s": report.records / alone,
        "folded_facts_per_s": report.facts / folded,
        "whole_facts_per_s": report.facts / whole,
        "decision_facts_per_s": report.decision_facts / max(whole - folded, 1e-9),
    }


if __name__ == "__main__":
    parser = options("bench.verify", __doc__, "2 minutes with 20,000 jobs")
    parser.add_argument("jobs", type=int, nargs="?", default=20_000, help="in the ledger")
    for figure, value in measure(parser.parse_args().jobs).items():
        print(f"{figure:<24} {value:,.0f}")
