"""The alternative solvers' route: one Python script, fed to `python3` on its standard input by the shell tool.

The script reads files by itself (the standard library alone, workbooks too), so that nothing of the table tools
or of the demonstrators is in it. It runs where the policy's commands run.
"""

from __future__ import annotations

import json
from typing import Any

LIBRARY = r'''
import csv, datetime, io, json, os, re, sys, zipfile
import xml.etree.ElementTree as ET
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

NS = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}

def load(path, sheet=None):
    if path.endswith((".csv", ".tsv")):
        with open(path, encoding="utf-8-sig", newline="") as f:
            return list(csv.DictReader(f, delimiter="\t" if path.endswith(".tsv") else ","))
    if path.endswith(".jsonl"):
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.strip()]
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    return workbook(path, sheet)

def workbook(path, sheet):
    z = zipfile.ZipFile(path)
    book = ET.fromstring(z.read("xl/workbook.xml"))
    rels = {r.get("Id"): r.get("Target") for r in ET.fromstring(z.read("xl/_rels/workbook.xml.rels"))}
    rid = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
    sheets = {s.get("name"): rels[s.get(rid)] for s in book.find("m:sheets", NS)}
    target = sheets[sheet] if sheet else next(iter(sheets.values()))
    shared = []
    if "xl/sharedStrings.xml" in z.namelist():
        for si in ET.fromstring(z.read("xl/sharedStrings.xml")):
            shared.append("".join(t.text or "" for t in si.iter("{%s}t" % NS["m"])))
    page = ET.fromstring(z.read(target.lstrip("/") if target.startswith("/") else "xl/" + target))
    grid = []
    for row in page.find("m:sheetData", NS):
        cells = {}
        for c in row:
            column = 0
            for letter in re.match("[A-Z]+", c.get("r")).group():
                column = column * 26 + ord(letter) - 64
            v, kind = c.find("m:v", NS), c.get("t")
            if kind == "inlineStr":
                cells[column] = "".join(t.text or "" for t in c.iter("{%s}t" % NS["m"]))
            elif v is not None and v.text is not None:
                cells[column] = shared[int(v.text)] if kind == "s" else v.text
        grid.append(cells)
    head = grid[0]
    return [{name: row.get(i) for i, name in head.items()} for row in grid[1:]]

def empty(x):
    return x is None or x == ""

def num(x):
    return Fraction(str(x).strip().replace(",", ""))

def day(x):
    s = str(x)
    if re.fullmatch(r"\d+(\.\d+)?", s):
        return str(datetime.date(1899, 12, 30) + datetime.timedelta(days=int(float(s))))
    return s[:10]

def same(x):
    s = str(x)
    return s[:-2] if s.endswith(".0") else s

def keep(row, tests):
    for t in tests:
        if t["column"] not in row:
            sys.exit("no column " + t["column"])
        cell, op = row[t["column"]], t["op"]
        if op in ("is_null", "not_null"):
            if empty(cell) != (op == "is_null"):
                return False
            continue
        if empty(cell):
            return False
        kind, value = t["kind"], t["value"]
        cell = str(cell).strip()
        if cell == "" or kind != "text" and cell.lower() in ("na", "n/a", "nan", "null"):
            return False
        if kind == "number":
            a, b = num(cell), num(value)
        elif kind == "date":
            a, b = day(cell), value
        else:
            a, b = str(cell), value
        if op == "contains":
            good = b in a
        else:
            good = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op]
        if not good:
            return False
    return True

def spell(x, places):
    """A number with as many places as asked and one more; halves away from zero."""
    if not isinstance(x, Fraction):
        return x
    if places is None:
        return str(x.numerator) if x.denominator == 1 else repr(float(x))
    scaled = abs(x) * 10**places
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    text = str(whole).rjust(places + 1, "0")
    text = (text[:-places] + "." + text[-places:] + "0") if places else text + ".0"
    return ("-" if x < 0 and whole else "") + text
'''


def command(task: dict[str, Any], body: str) -> str:
    """A shell command that runs the library, then `body` with `task` at hand."""
    said = repr(json.dumps(task, ensure_ascii=True, sort_keys=True))
    return f"python3 - <<'ROVER_SCRIPT'{LIBRARY}\ntask = json.loads({said})\n{body}\nROVER_SCRIPT\n"
