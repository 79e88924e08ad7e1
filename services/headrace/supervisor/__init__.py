"""The whole of Headrace on one machine: every part a child process, kept alive, on one data directory.

The question it answers: *what has to run here, in which order, and what when it dies?*

Facts read: none. Facts written: none.

- `installation` is the data directory: where everything lies, the logins made once, the settings kept for the next start;
  `running` is what it says while it runs: the lock, who runs, and how to stop it. `ports` finds a free one.
- `children` starts, watches and restarts processes; `logfile` keeps what they say; `parts` says what each part is as a process.
- `postgres` prepares the database, `certificates` those for TLS; `elsewhere` writes what it
  takes without all this, on other machines; `readiness` asks each part whether it is there; `up` puts all together.

It never decides about jobs, never touches the ledger, and leaves nothing running when it ends, however it ends.
"""
