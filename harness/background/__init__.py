"""Background traffic: flows of others that share the network with a run."""
