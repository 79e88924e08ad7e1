"""What is run on a machine that one owns, by a POSIX shell over SSH: begin, show and end instances, and put the machine to sleep.

Below its directory the machine has a directory for each instance: `order.json` (its tags), `run` (what runs there), `pid`, `log` and, once
it has ended, `ended`. An instance is one process: it keeps the node executor running, and when that has ended for good, for whatever
reason, it puts the machine to sleep. It carries its pid, when it began, and the boot of the machine, so that another process with its
number is not taken for it. One lock orders all that changes a machine, so a machine has one instance at a time. Others can pass through the
directories and read nothing, so that jobs run under accounts of their own below them.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.provisioner.providers import Order
    from headrace.provisioner.providers.machines import OwnedMachine

TRIES = 60
"""How often an executor that fails is started again."""

SLEEP_AFTER = 5
"""Seconds between the end of an instance and the sleep of its machine, in which its end can be seen."""

END_WITHIN = 20
"""Seconds that an executor gets to end its jobs; then it is to kill them, and after a third of that it is killed."""

_FUNCTIONS = """\
runs() {
  [ -s "$root/$1/pid" ] && [ ! -e "$root/$1/ended" ] || return 1
  read -r pid began boot < "$root/$1/pid" || return 1
  [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || return 1
  set -- $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null)
  [ "$#" -ge 20 ] && [ "$1" != Z ] && [ "${20}" = "$began" ]
}
holder() {
  for place in "$root"/*/; do
    other=$(basename "$place")
    if [ "$other" != "$1" ] && runs "$other"; then echo "$other"; return; fi
  done
}
"""

_HEAD = """\
set -eu
umask 077
root={root}
instance={instance}
place=$root/$instance
"""

_BEGIN = """\
mkdir -p "$root"
exec 9> "$root/lock"
flock 9
find "$root" -maxdepth 2 -name ended -mtime +0 | while read -r old; do
  old=$(dirname "$old")
  if grep -qF {mine} "$old/order.json" 2>/dev/null; then rm -rf "$old"; fi
done
if [ ! -e "$place/ended" ] && ! runs "$instance"; then
  busy=$(holder "$instance")
  if [ -n "$busy" ]; then echo "busy $busy"; exit 0; fi
  mkdir -p "$place"
  chmod 711 "$root" "$place"  # accounts of jobs pass through them
  if [ -e "$place/pid" ]; then
    date +%s > "$place/ended"
  else
    if [ ! -s "$place/order.json" ]; then
      printf '%s\\n' {order} > "$place/order.new"
      mv "$place/order.new" "$place/order.json"
    fi
    cat > "$place/run" <<'HEADRACE_RUN'
{run}HEADRACE_RUN
    setsid -f /bin/sh "$place/run" < /dev/null >> "$place/log" 2>&1 9>&-
    tries=0
    while [ ! -s "$place/pid" ] && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
  fi
fi
echo "made $(cat "$place/order.json")"
"""

_RUN = """\
#!/bin/sh
# Instance {instance} of pool {pool}. Made by Headrace.
{head}
{functions}
set +e
began=$(sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 20)
echo "$$ $began $(cat /proc/sys/kernel/random/boot_id)" > "$place/pid.new"
mv "$place/pid.new" "$place/pid"
{variables}
child= over= tries=0
trap 'over=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM
trap 'over=1; [ -z "$child" ] || kill -QUIT "$child" 2>/dev/null' QUIT
while [ -z "$over" ] && [ "$tries" -lt {tries} ]; do
  {command} &
  child=$!
  while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  child=
  case $code in 0|2) break;; esac
  tries=$((tries + 1))
  [ -n "$over" ] || sleep 2
done
date +%s > "$place/ended"
{asleep}
"""

_ASLEEP = """\
sleep {after}
exec 9> "$root/lock"
flock 9
[ -n "$(holder "$instance")" ] || {sleep}
"""

_END = """\
[ -d "$place" ] || {{ echo gone; exit 0; }}
stop() {{
  tries=0
  if runs "$instance"; then kill "-$1" "$pid" 2>/dev/null || true; fi
  while [ "$tries" -lt "$2" ] && runs "$instance"; do tries=$((tries + 1)); sleep 0.1; done
}}
if runs "$instance"; then
  stop TERM {first}
  stop QUIT {second}
  if runs "$instance"; then
    kill -KILL -- "-$pid"
    stop KILL {second}
  fi
fi
[ -e "$place/ended" ] || date +%s > "$place/ended"
echo gone
"""

_SHOW = """\
set -u
root={root}
for place in "$root"/*/; do
  [ -s "$place/order.json" ] || continue
  if runs "$(basename "$place")"; then echo "runs $(cat "$place/order.json")"; else echo "ended $(cat "$place/order.json")"; fi
done
"""

_REST = """\
set -u
root={root}
[ -n "$(holder '')" ] || {{ setsid -f /bin/sh -c {sleep} < /dev/null > /dev/null 2>&1; }}
"""

_CHECK = """\
set -u
for tool in flock setsid sed cut; do command -v "$tool" > /dev/null || {{ echo "$tool is missing"; exit 0; }}; done
command -v {program} > /dev/null || {{ echo {program}" is missing"; exit 0; }}
mkdir -p {root} 2> /dev/null && [ -w {root} ] || {{ echo {root}" cannot be written"; exit 0; }}
"""

_CHECK_ACCOUNTS = """\
[ "$(id -u)" = 0 ] || exit 0
above=$(dirname {root})
while [ "$above" != / ]; do
  case $(ls -ld "$above") in
    ?????????x*|?????????t*) above=$(dirname "$above") ;;
    *) echo "$above is closed to accounts of jobs"; exit 0 ;;
  esac
done
"""


def begin(machine: OwnedMachine, order: Order, tags: str) -> str:
    """Begin an instance, or find it: prints `made` and its tags, or `busy` and the instance that has the machine."""
    head = _HEAD.format(root=shlex.quote(machine.directory), instance=shlex.quote(order.instance))
    data = f"{machine.directory}/{order.instance}/node"
    command = [*shlex.split(machine.program), *order.arguments, "--data", data, *shlex.split(machine.arguments)]
    run = _RUN.format(
        instance=order.instance,
        pool=order.pool,
        head=head,
        functions=_FUNCTIONS,
        variables="\n".join(f"export {name}={shlex.quote(value)}" for name, value in sorted(order.environment.items())),
        command=shlex.join(command),
        tries=TRIES,
        asleep=_ASLEEP.format(after=SLEEP_AFTER, sleep=machine.sleep) if machine.sleep else "",
    )
    mine = shlex.quote(f'"installation":"{order.installation}"')
    return head + _FUNCTIONS + _BEGIN.format(mine=mine, order=shlex.quote(tags), run=run)


def end(machine: OwnedMachine, instance: str) -> str:
    """End an instance, and wait until it has ended: prints `gone`."""
    head = _HEAD.format(root=shlex.quote(machine.directory), instance=shlex.quote(instance))
    return head + _FUNCTIONS + _END.format(first=10 * END_WITHIN, second=10 * END_WITHIN // 3)


def show(machine: OwnedMachine) -> str:
    """Show all instances: prints `runs` or `ended` and the tags of each."""
    return _FUNCTIONS + _SHOW.format(root=shlex.quote(machine.directory))


def rest(machine: OwnedMachine) -> str:
    """Put the machine to sleep, unless it has an instance."""
    return _FUNCTIONS + _REST.format(root=shlex.quote(machine.directory), sleep=shlex.quote(machine.sleep or ":"))


def check(machine: OwnedMachine) -> str:
    """Print what is missing for instances; nothing if they can run."""
    program, root = shlex.quote(shlex.split(machine.program)[0]), shlex.quote(machine.directory)
    own_accounts = "" if "--run-as" in shlex.split(machine.arguments) else _CHECK_ACCOUNTS
    return (_CHECK + own_accounts).format(program=program, root=root)
