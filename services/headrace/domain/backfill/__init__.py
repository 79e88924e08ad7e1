"""Units kept for large jobs, and the jobs that may use them meanwhile (R16). Pure."""
