"""Is the network what the scenario says? Measured by ordinary sockets and programs inside it.

`plan` decides what to send over which link (pure), `pair` and `instruments` send it from inside the
sites, `judge` compares what came out with what was set (pure), `figure` draws it (pure). `session`
runs in the kernel that carries the network, `fidelity` outside of it.
"""
