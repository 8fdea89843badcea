#!/bin/bash
set -e
cd /app
{
  echo invoice,amount
  awk -F, 'NR > 1 && $3 < "2026-03-01" && $5 == "" {print $1 "," $4}' invoices.csv | sort
} > overdue_invoices.csv
