"""One module per op family, each with a list RECORDS."""
