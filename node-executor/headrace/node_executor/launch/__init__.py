"""What a job is started with: environment, secrets, preempt notice; `preparation` joins them with account and control group."""
