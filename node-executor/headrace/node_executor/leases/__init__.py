"""One lease that runs here: what the executor holds of it, its suspension, and the check of the checkpoint it resumes from."""
