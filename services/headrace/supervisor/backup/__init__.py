"""Backup and restore of a whole installation as one file."""
