"""What administrators may write: documents become facts, all or nothing, each based on what its author had read.

The question it answers: *may this be written, what would it change, and whom does it touch?*

- `objects` names what can be written; `references`, `ceilings` (R7), `hardware` (R6) and `honour` (R8) look for what is wrong with a set
  of documents, on the `outlook`: the installation as it would be; `findings` collects what they find.
- `plan` puts it together (R9), with `changes` field by field and the jobs `touched` (R10); `removal` is the same for deletions (R11),
  `closing` ends what is drained or cancelled, and `calendars` keeps the clocks of time zones in the ledger (R33; `zones` reads the
  machine's database). All of these but the last are pure. `decide` turns the requests that wait into records, one each; `service` hears
  and answers them. Because administrators alone may ask this service, it also hands out the ledger as it was written, to who looks back.

Facts read: all. Facts written: `<kind>.applied`, `<kind>.deleted`, `object.closed`, `calendar.stated`, and what administrators
say of nodes and jobs (`node.*`).

It never touches a job: what follows for jobs is the allocator's business. It creates nothing that nobody asked for.
"""
