"""Values that documents, facts and messages share: amounts, times, names, levels, reasons."""
