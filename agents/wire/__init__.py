"""Communication between agents: messages, frames, links, connections."""
