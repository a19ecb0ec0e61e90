"""`env.vector: processes`: the copies of a Python environment in processes of their own, so that a slow one holds up nobody."""
