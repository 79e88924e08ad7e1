"""Files that jobs leave: checkpoints, sizes, retention, removal."""
