"""Values that documents, facts and messages share: amounts, durations, ids, MIG slices, isolation levels, reasons."""
