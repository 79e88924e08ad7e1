"""The same engine on a scenario file, or on a copy of a real state: all rules, no processes, virtual time (`headrace simulate`).

The question it answers: *what would Headrace do, and does it do what this file expects?*

It runs the real pure parts of admission, allocator, preemption and governance side by side over the in-memory log, through the real
codec and the real fold; that is why it, of all packages, may import them. Nodes and jobs are simulated (`machines`).

`scenario` reads a file, `world` plays it (`happenings`: what happens at a moment), `expectations` compare, `command` is the command line.
For *what if*, `changes` reads what would be otherwise, `whatif` plays a moment on twice, `abreast` at the same time, `outcome` tells what
came of each and `toll` what that used and cost, `difference` sets them side by side. For what if on real history, `period` reads a time of
the ledger, `aftermath` keeps what came in it, `again` states that in another world.
"""
