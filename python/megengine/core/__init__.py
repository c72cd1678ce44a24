"""What lies below the public modules: the bound core and the names that programs import from here."""
