"""Environments of Shoal's own that step thousands of copies at once, as numpy arrays."""
