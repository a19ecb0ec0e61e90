"""Godot games with agents of Godot RL Agents: a game outside in, an Env out."""
