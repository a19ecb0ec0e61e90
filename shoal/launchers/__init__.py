"""Who runs a Program: `program` expands an experiment, each launcher runs the same workers in its own way."""
