"""The same engine on a scenario file, or on a copy of a real state: all rules, no processes, virtual time (`headrace simulate`).

It answers the question: *what would Headrace do, and does it do what this file expects?*

It runs the real pure parts of admission, allocator, preemption and governance side by side over the in-memory log, through the real codec
and the real fold; that is why it, of all packages, may import them. Nodes and jobs are simulated (`simulated_nodes`).

`scenario` reads a file, `world` runs it on a `virtual_system` (`timeline_events` applies the events of a moment), `expectations` compares
the result, `names` finds what a file names briefly, `command` is the command line. For *what if*, `changes` reads the changes, `whatif`
runs the same moment twice, `run_pair` at the same time, `outcome` gathers the results of each and `usage_cost` what that used and cost,
`difference` compares them. For what if on real history, `ledger_window` reads a part of the ledger, `recorded_inputs` keeps its inputs,
`replay_facts` states them in another world; `whatif_worker` answers the question of a service, and `whatif_process` is the process in which
it does.
"""
