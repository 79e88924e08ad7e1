"""Commands that start, stop, watch, back up and repair an installation."""
