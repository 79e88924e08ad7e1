"""Files of the node and of its jobs: directories, checkpoints, disk usage, retention, removal."""
