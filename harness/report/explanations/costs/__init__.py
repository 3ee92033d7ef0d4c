"""What faults cost a whole run."""
