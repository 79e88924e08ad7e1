"""Who yields: the search for jobs whose going makes room for one that is owed it (R23 - R26).

The question it answers: *which set of jobs is legal, sufficient and minimal, or why is there none?* `eligibility` and `legality` say
who may be taken at all, `yielders` in which order, `sweeps` searches by place, `victims` gives the set; `holdings` takes a job out on
trial. It never orders anything.
"""
