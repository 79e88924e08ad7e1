"""Installations on several machines: their configuration, and restarts of one service after the other."""
