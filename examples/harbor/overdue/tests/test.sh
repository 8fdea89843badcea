#!/bin/bash
# Writes 1 where the list is right, else 0.
mkdir -p /logs/verifier
if python3 /tests/check.py /app/overdue_invoices.csv; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
