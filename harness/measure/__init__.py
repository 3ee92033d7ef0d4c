"""Is the network what the scenario says? Measured by ordinary sockets and programs inside it.

`measurement_plan` decides what to send over which link (pure). `pair`, `datagrams` and `foreign`
send it from inside the sites, by `site_functions`. `judge` compares the result with what was set
(pure), and `figure` draws it (pure). `measurement_session` runs in the kernel that carries the
network, `self_check` outside of it.
"""
