"""The measurement of links and clocks by the sites, while they synchronize."""
