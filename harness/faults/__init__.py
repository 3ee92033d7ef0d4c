"""What can break: as values, in words, over time, carried out."""
