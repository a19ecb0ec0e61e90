"""What an actor does, without a process: step environments, ask for decisions, build fragments, play episodes."""
