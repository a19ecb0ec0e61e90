"""Many runs as one: members that share the slots of a machine, and a journal of all that was decided about them."""
