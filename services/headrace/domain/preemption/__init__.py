"""Who yields: the search for jobs whose going makes room for one that is owed it (R23 - R26).

The question it answers: *which set of jobs is legal, sufficient and minimal, or why is there none?* `eligibility` and `legality` say
who may be taken at all, `victim_candidates` in which order, `victim_search` searches by place, `victims` gives the set. It never orders
anything.
"""
