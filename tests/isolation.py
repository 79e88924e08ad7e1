"""What a job can get of another job and of its node, tried from inside by a script that needs a shell and `cat`, `touch` and `kill` only.

It prints one line for each thing that it got. The same script run by the other job's own user gets what is that user's, so a path that
is not there does not pass for isolation.
"""

from __future__ import annotations

from typing import Any

from tests.integration.nodes import Executor, Feed, until_printed

HOLDS = """\
echo secret > own; echo secret > $HEADRACE_CHECKPOINT_DIR/1.pt
echo ready; while [ ! -e release ]; do sleep 0.01; done
"""
"""The job that is looked at."""

TRIES = """\
reads() { cat "$1" > /dev/null 2>&1 && echo "reads $2"; }
writes() { touch "$1" 2> /dev/null && (: >> "$1") 2> /dev/null && echo "writes $2"; }
enters() { (cd "$1") 2> /dev/null && echo "enters $2"; }
lists() { for one in "$1"/*; do case "$one" in "$1/$2"*) echo "lists $3";; esac; done; }
signals() { kill -0 "$1" 2> /dev/null && echo "signals $2"; }
lease=$DATA/leases/$OTHER
reads $lease/work/own 'its file'
writes $lease/work/own 'its file'
writes $lease/finished 'its control files'
reads $lease/poll/finished 'its control files'
reads $DATA/checkpoints/$CHECKPOINTS/1.pt 'its checkpoint'
writes $DATA/checkpoints/$CHECKPOINTS/1.pt 'its checkpoint'
reads $DATA/logs/$OTHER.log 'its output'
writes $DATA/logs/$OTHER.log 'its output'
writes $DATA/logs/${HEADRACE_CONTROL_DIR##*/}.log 'the record of its own output'
reads /proc/$PROCESS/environ 'its environment'
reads /proc/$PROCESS/maps 'its memory'
reads /proc/$PROCESS/cwd/own 'its directory through its process'
signals $PROCESS 'its process'
signals $KEEPER 'its keeper'
[ $PPID = 1 ] || signals $PPID 'the keeper of this job'
signals $EXECUTOR 'the executor'
reads /proc/$EXECUTOR/environ 'the login of the node'
reads $DATA/journal 'what jobs run'
reads $DATA/kept/$OTHER 'the record of its keeper'
writes $DATA/kept/$OTHER 'the record of its keeper'
writes $DATA/made 'the data directory'
enters $DATA/logs 'the outputs'
for folder in leases logs checkpoints kept; do lists $DATA/$folder $CHECKPOINTS "the jobs in $folder"; done
lists $DATA journal 'the data directory'
case "$(cat /proc/self/environ)" in *HEADRACE_NATS*) echo 'has the login of the node';; esac
echo tried
"""

OWN = [
    *("reads its file", "writes its file", "writes its control files", "reads its control files", "reads its checkpoint"),
    *("writes its checkpoint", "reads its environment", "reads its memory", "reads its directory through its process"),
    "signals its process",
]
"""What a process of the same user gets: files and processes belong to the user's account."""


async def begin_to_hold(feed: Feed, number: int, **fields: Any) -> str:
    """A job of alice that has files and runs; its key."""
    job = await feed.start(number, "sh", "-c", HOLDS, **fields)
    await until_printed(feed, job, "ready\n")
    return job


async def got(feed: Feed, node: Executor, number: int, other: str, process: int, **fields: Any) -> list[str]:
    """What another job got of `other` (whose process this is) and of the node."""
    assert node.process is not None
    keeper = (node.data / "kept" / f"{other}.1.0").read_text().split()[1]
    given = {
        "DATA": str(node.data),
        "OTHER": f"{other}.1.0",
        "CHECKPOINTS": f"{other}.1",
        "PROCESS": str(process),
        "KEEPER": keeper,
        "EXECUTOR": str(node.process.pid),
    }
    job = await feed.start(number, "sh", "-c", TRIES, env=given, **fields)
    ended = await feed.ended(job)
    *lines, last = (await feed.read_log(job)).data.splitlines()
    assert (ended.exit_code, last) == (0, "tried"), (ended, lines, last)
    return lines


def first_process(node: Executor, job: str) -> int:
    """The process of a job that is not in a container."""
    return int((node.data / "kept" / f"{job}.1.0").read_text().split()[2])
