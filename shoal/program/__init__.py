"""From an experiment to processes, workers and streams, as data."""
