"""The archive: the ledger's records as Parquet files by month, and one reader that continues from there in the stream.

The question it answers: *what was in the ledger, however long ago, and is it still exactly what was written?*

- `manifest` lists the files, each with its records and its digest; only listed files count. `atomic_files` writes it and them.
- `table` is the format of a file: every record whole (bytes, headers, sequence, time), beside columns for queries.
- `export` brings the archive up to the end of the ledger, each file read back and compared before it counts; `check` verifies all of it.
- `archive_reader` reads it; `history` is a log that reads the archive where the stream has been purged, and the stream after that;
  `writer_records` is the same for the records of one writer.
- `retention` says what may be purged from the stream, `purge` does it.
- `stream_repair` chooses the right records for a damaged stream; `nats_blocks` and `highwayhash` are the server's file format.

Facts read: all, as bytes. Facts written: none. It never decides, guesses nothing, and returns nothing that differs from what was written.
"""
