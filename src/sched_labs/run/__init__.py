"""What every experiment has in common."""
