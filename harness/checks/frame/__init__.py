"""The frame of a run: its log, its header, its stop, its exits, and its faults."""
