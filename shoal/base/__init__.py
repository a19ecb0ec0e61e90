"""Arrays and trees, config machinery, seeding, files: what knows nothing of reinforcement learning."""
