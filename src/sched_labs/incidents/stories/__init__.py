"""A folder for each story of the incident room."""
