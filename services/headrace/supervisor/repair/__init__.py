"""Repair of the streams of an installation that is stopped."""
