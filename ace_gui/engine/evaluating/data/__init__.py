"""Reading data that may be anything: tables of rows from files of many kinds. Needs no torch."""
