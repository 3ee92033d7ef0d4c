"""The load of links, and what TCP could carry on them."""
