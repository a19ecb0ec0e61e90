"""Training under Slurm: `script` writes the batch job, `jobs` speaks to Slurm, `cluster` is what the job itself asks for."""
