"""Small helpers that programs import by name."""
