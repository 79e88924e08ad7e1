"""The archive: the ledger's records as Parquet files by month, and the one reader that goes from there into the stream without a seam.

The question it answers: *what stood in the ledger, however long ago, and is it still exactly what was written?*

- `manifest` lists the files, each with what it holds and its digest; it alone says what the archive has. `durable` writes it and them.
- `table` is what a file looks like: every record whole (bytes, headers, sequence, time), beside columns that people query.
- `exporting` brings the archive up to the ledger, each file read back and compared before it counts; `checking` looks at all of it.
- `reading` reads it; `history` is a log that reads the archive where the stream has been purged, and the stream behind that;
  `by_subject` is the same for what one writer has written.

Facts read: all, as bytes. Facts written: none. It never decides, guesses nothing, and serves nothing that differs from what was written.
"""
