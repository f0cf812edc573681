"""One loop for everything that is trained here."""
