"""What everything stands on: errors, files, the lock, results, statistics, the register of experiments."""
