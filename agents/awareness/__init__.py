"""What sites measure of their links and clocks while they synchronize."""
