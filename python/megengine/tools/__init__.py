"""Tools to look at dumped graphs."""
