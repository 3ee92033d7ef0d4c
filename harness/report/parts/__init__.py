"""The features of a report, one per file: which runs have it, its tables, figures and sections."""
