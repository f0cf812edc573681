"""How vectors leave to disk: streamed, safe against a crash, resumable. Start at `writer.py`.

A record is one input line with its vectors. Records go to a journal beside the output while the
work runs, and from there into the final format in one stream at the end:

    writer.py    what the rest of relmo uses: VectorWriter
    record.py    one line and its vectors
    journal.py   the unfinished run on disk; its bytes are in entries.py
    formats.py   suffix -> format; one module each: hdf5.py, npz.py, parquet.py, jsonl.py
    lock.py      a file that one process holds at a time

Nothing here knows about models.
"""
