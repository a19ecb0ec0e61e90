"""What a user asks for, once, for the command line and for Python: train, resume, evaluate, roll out, reproduce."""
