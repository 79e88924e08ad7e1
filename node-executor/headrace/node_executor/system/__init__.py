"""What the operating system offers: accounts, control groups, processes, threads, C programs. Knows neither leases nor devices."""
