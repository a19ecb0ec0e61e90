"""What is written down and shown of a run: its folder, where it came from, its numbers, the live view."""
