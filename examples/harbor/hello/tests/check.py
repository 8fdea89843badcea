"""Compares the counts with those of the parcels."""

import csv
import sys

EXPECTED = [["depot", "parcels"], ["Lima", "3"], ["Oslo", "2"], ["Turin", "1"]]

try:
    with open(sys.argv[1], newline="") as file:
        found = [row for row in csv.reader(file) if row]
except OSError as error:
    sys.exit(f"cannot be read: {error}")
if found != EXPECTED:
    sys.exit(f"expected {EXPECTED}, found {found}")
