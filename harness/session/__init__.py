"""The session of a run: the processes inside the kernel that carries the network."""
