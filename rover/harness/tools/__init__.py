"""The tools that a harness can offer.

`specs` is what a policy sees and what its arguments are checked against (on the host). The other modules do
the work; they run inside the box (`rover.harness.inside:tool`), so that hostile files never meet the host.
"""
