"""Sites and links: built, shaped, changed and removed."""
