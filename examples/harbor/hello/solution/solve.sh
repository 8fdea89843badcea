#!/bin/bash
set -e
cd /app
{
  echo depot,parcels
  tail -n +2 parcels.csv | cut -d, -f2 | sort | uniq -c | awk '{print $2 "," $1}'
} > counts.csv
