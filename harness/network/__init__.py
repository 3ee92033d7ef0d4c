"""Sites and links: how they are built, shaped, changed and removed."""
