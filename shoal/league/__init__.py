"""Many players: who meets whom, what came of it, and who is how strong."""
