"""What a job is started with: account, environment, limits, secrets."""
