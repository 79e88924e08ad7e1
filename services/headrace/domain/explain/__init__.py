"""Why a job waits, and until when (R22).

The question it answers: *what stands in its way, who has what it needs, what would change that?* `waits` has the one reason, `needs`
what is missing, `reclaims` why nothing is taken back for it, `forecast` when it may start (by `ends` of others, beside
`expected_holds` and with `expected_nodes`), `changes` the cheapest change that would start it now, `foreseen` what budgets will do;
`explain` puts the whole answer together.
"""
