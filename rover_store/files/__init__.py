"""Folders that anyone may have made: names, reading, writing out, and the records that a package must hold."""
