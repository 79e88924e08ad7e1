"""What a job is started with: account, control groups, environment, secrets, preempt notice; `preparation` joins them."""
