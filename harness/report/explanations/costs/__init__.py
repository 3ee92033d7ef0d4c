"""What faults cost a whole run, and why bytes took less than expected."""
