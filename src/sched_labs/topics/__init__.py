"""The experiments: a folder for each chapter, and in it a folder for each experiment."""
