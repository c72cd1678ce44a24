"""What lies below the public modules, and names that programs import from here."""
