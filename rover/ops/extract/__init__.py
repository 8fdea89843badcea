"""What workbooks, documents, images and archives hold, as plain JSON for a comparison. All of it is read in a box.

`box` is the host's side; everything else here runs inside, on bytes that nobody may trust, and bounds what it reads.
"""
