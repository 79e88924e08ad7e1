"""The history, looked at by somebody who did not write it.

The question it answers: *is the ledger whole, does what was decided follow from it, and what was true at any moment of it?*

It runs the pure parts of several services side by side over the recorded prefix; that is why it, with simulate, may import them.
Facts read: all. It never decides, and changes nothing that is recorded.
"""
