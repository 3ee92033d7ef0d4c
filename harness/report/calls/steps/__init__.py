"""Steps of programs: their table, their section, and why one of them took its time."""
