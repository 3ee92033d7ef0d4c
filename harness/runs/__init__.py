"""A run from outside: started here or on another machine, watched, cleaned up after."""
