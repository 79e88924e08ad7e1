"""Who goes first, and whether at all.

The question it answers: *whose turn is it?* `ranking` compares (R15), `line` and `ahead` give the order; `admissible` says what can
ever run (R13), `access` who may use a queue (R12), `honourable` which promises can be kept together (R8), `closings` what is closed
(R11), `gates` what windows and budgets allow (R33), and `holds` what is kept for those who have waited too long (R16).
"""
