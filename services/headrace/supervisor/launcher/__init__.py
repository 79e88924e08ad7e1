"""Runs an installation on one machine: starts all parts, stops them, restarts one after the other."""
