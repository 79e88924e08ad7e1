import { expect, it } from "vitest";
import { cells } from "./csv";

it("reads quotes, commas and lines inside of quotes, and leaves empty lines out", () => {
  expect(cells('a,b\r\n"x, ""y""","1\n2"\n\n,\n')).toEqual([["a", "b"], ['x, "y"', "1\n2"], ["", ""]]);
  expect(cells("")).toEqual([]);
});
