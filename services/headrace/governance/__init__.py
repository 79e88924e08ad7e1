"""Changes by administrators: documents become facts, all or nothing, each based on the revision that its author had read.

The question it answers: *is this change allowed, what does it change, and which jobs does it affect?*

- `objects` names the objects; `validation` checks a set of documents (references, limits (R7), supply (R6), reservations (R8)) on the
  `preview`: the installation as it would be.
- `plan` combines these (R9), with `changes` field by field and the `affected_jobs` (R10); `removal` is the same for deletions (R11) with
  `dependents`, `drain` deletes closed objects once they are unused, and `calendars` keeps the clocks of time zones in the ledger (R33;
  `time_zones` reads the machine's database).
- `nodes`, `approvals`, `tokens`, `claims`, `erasure`, `force_preempt`, `levels`, `storage`, `missing_keys` and `node_allowance` are the
  other operations; `level_upgrade` and `node_exclusion` call them on their own.
- `decide` turns waiting requests into records, one each; `service` receives and answers them; `api` is the gRPC API. Because only
  administrators may ask this service, it also serves the past ledger.

Facts read: all. Facts written: `<kind>.applied`, `<kind>.deleted`, `object.closed`, `calendar.stated`, and orders of administrators
about nodes and jobs (`node.*`).

It never acts on a job: the consequences for jobs are decided by the allocator. It creates only objects that were asked for.
"""
