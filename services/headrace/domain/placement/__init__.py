"""Where a job may go: nodes sorted so that one is found without looking at all of them, and which of them is best (R3, R18, R20).

The question it answers: *is there room for all of it, now or after certain jobs have left, and where is it missed least?* `placement`
asks, `node_index` (over sections of one tag, over classes of like nodes) answers; `fragmentation`, `slices`, `expected_use` and `steering`
say how good a place is; `vacated` and `awaited` (over `offers`) ask as if others had gone
(R16, R26), `growth` as if nodes were created (R38).
"""
