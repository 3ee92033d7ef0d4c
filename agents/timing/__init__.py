"""Clocks and waits of agents: virtual, real, of a site with an offset; timers exact to the tick."""
