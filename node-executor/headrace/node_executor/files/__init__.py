"""Files of the node and of its jobs: directories, checkpoints, retention, removal, and inspections that may hang."""
