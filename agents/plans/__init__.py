"""One plan builder per file, found by its name; each names its paper."""
