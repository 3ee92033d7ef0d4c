"""How agents talk to each other: messages, frames, links, connections, clocks."""
