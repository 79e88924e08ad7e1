"""How long a test waits for what must come: never the thing measured, so that a busy machine fails nothing."""

PATIENCE = 120.0
"""Seconds; a test that waits so long has failed, and says where."""
