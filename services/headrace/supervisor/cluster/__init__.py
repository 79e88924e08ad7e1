"""Installations on several machines: their configuration, and checks of the files that are copied there."""
