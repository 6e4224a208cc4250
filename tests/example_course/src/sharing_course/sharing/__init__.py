"""The experiments of the chapter on sharing."""
