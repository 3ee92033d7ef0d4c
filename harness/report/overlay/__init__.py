"""The overlay in reports: where sites stand, the load of links over time, and their map."""
