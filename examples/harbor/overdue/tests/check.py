"""Compares the list with the invoices that are overdue."""

import csv
import sys

EXPECTED = [["invoice", "amount"], ["F-102", "130.50"], ["F-103", "88.00"], ["F-105", "310.00"]]

try:
    with open(sys.argv[1], newline="") as file:
        found = [row for row in csv.reader(file) if row]
except OSError as error:
    sys.exit(f"cannot be read: {error}")
if found != EXPECTED:
    sys.exit(f"expected {EXPECTED}, found {found}")
