"""Unity games with ML-Agents agents, by a client of our own: behaviours in, an Env out."""
