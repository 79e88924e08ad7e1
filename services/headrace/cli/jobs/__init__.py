"""Commands about jobs: `submit`, `jobs` and its relatives, `cancel`."""
