"""A run on a Ray cluster: its controller as a detached actor, and the driver that follows it."""
