"""A run from inside the kernel that carries it."""
