"""Generic checks over the records of cases/."""
