"""Old interfaces over the new library."""
