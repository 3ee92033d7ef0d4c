"""One policy per file, found by its name: who synchronizes with whom, when, with what weights."""
