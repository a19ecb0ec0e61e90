"""What an actor does, without a process: step worlds, ask for decisions, build fragments, play episodes."""
