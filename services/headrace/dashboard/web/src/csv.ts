// CSV as RFC 4180 has it. Pure.

/** Rows of cells; empty lines are left out. */
export function cells(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  const end = (): void => {
    row.push(cell);
    if (row.length > 1 || row[0]) rows.push(row);
    row = [];
    cell = "";
  };
  for (let i = 0; i < text.length; i++) {
    const one = text.charAt(i);
    if (quoted && one === '"' && text.charAt(i + 1) === '"') {
      cell += one;
      i++;
    } else if (one === '"') quoted = !quoted;
    else if (one === "," && !quoted) {
      row.push(cell);
      cell = "";
    } else if (one === "\n" && !quoted) end();
    else if (one !== "\r" || quoted) cell += one;
  }
  end();
  return rows;
}
