"""The cost of faults for a whole run, and why bytes took less than expected."""
