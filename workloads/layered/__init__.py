"""Models as a sequence of bases with parallel branches, and the tables of real networks."""
