"""What a reader touches in a notebook: predictions, controls, calculators, the survey, the clean-up."""
