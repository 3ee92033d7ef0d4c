"""The tables of a run: every column with its meaning and its value; those of all runs are here."""
