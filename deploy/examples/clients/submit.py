"""Submit a job and wait for its end with nothing but a NATS client for Python: `pip install nats-py`, no package of Headrace.

    HEADRACE_URL=tls://gpus.example:4222 HEADRACE_TOKEN=... python submit.py ai-dev/half echo hello

Prints the job's id, and how it ended.
"""

import asyncio
import base64
import hashlib
import json
import os
import secrets
import sys
import time

import nats

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """A lower-case ULID: 48 bits of milliseconds since 1970, 80 random bits."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


async def connect(token: str, user: str) -> nats.NATS:
    """The password is the token. Answers reach this connection only below a prefix that is made from the token."""
    inbox = f"_INBOX_t_{hashlib.blake2b(token.encode(), digest_size=16).hexdigest()}"
    return await nats.connect(os.environ["HEADRACE_URL"], user=user, password=token, inbox_prefix=inbox)


async def main() -> int:
    token, queue, command = os.environ["HEADRACE_TOKEN"], sys.argv[1], sys.argv[2:]
    body = token.split(".")[1]
    bearer = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))  # whose token it is stands in it
    tenant, handle = bearer["tenant"], bearer["handle"]
    policy, profile = queue.split("/")
    job = {"id": new_id(), "command": command}

    feed = await connect(
        token, f"{tenant}_{handle}_feed"
    )  # the feed is heard on a connection of its own, which may not publish
    facts = await feed.subscribe(f"hr.feed.{tenant}.job.*.{job['id']}")
    await feed.flush()

    client = await connect(token, f"{tenant}_{handle}")
    subject = f"hr.submit.{tenant}.{handle}.{policy}.{profile}"
    while True:  # the same id is the same job, so it may be sent again until it is stored
        try:
            answer = json.loads((await client.request(subject, json.dumps(job).encode(), timeout=5)).data)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            await asyncio.sleep(0.25)
            continue
        if "error" in answer:
            print(f"not stored: {answer['error']['description']}", file=sys.stderr)
            return 1
        break
    print(job["id"], flush=True)

    async for message in facts.messages:
        fact = json.loads(message.data)
        if fact["type"].startswith(("job.ended.", "job.rejected.")):
            print(json.dumps(fact))
            break
    await client.close()
    await feed.close()
    return 0


sys.exit(asyncio.run(main()))
