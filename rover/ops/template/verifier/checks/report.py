"""Checks of report.csv. Each returns (score, reason); `rover help package` lists what `rc` offers."""

import rover_checks as rc

KEY = ["region"]


def columns(ev):
    return rc.has_columns(rc.table(ev.end("report.csv")), ["region", "orders", "amount"])


def rows(ev):
    return rc.rows_match(rc.table(ev.end("report.csv")), ev.anchor("totals"), key=KEY)


def orders(ev):
    return rc.cells_match(rc.table(ev.end("report.csv")), ev.anchor("totals"), key=KEY, column="orders")


def amount(ev):
    found = rc.table(ev.end("report.csv"))
    return rc.cells_match(found, ev.anchor("totals"), key=KEY, column="amount", tolerance=0.005)


def kept(ev):
    return rc.protected(ev, ["data/orders.csv", "data/customers.csv"])


def clean(ev):
    return rc.no_extra(ev, allowed=["report.csv"])
