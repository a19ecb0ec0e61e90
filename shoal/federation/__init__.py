"""Parent and children over secure websockets: each child trains by itself, a parent mixes what they have learned."""
