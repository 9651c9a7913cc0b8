import { expect, test } from "vitest";
import { BoundedMap } from "../../src/common/bounded-map.js";

test("a bounded map drops the oldest entry beyond its limit", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2);
  expect([...map]).toEqual([["a", 1], ["b", 2]]);
  map.set("c", 3);
  expect([...map]).toEqual([["b", 2], ["c", 3]]);
});

test("a new value does not drop an entry", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3);
  expect([...map]).toEqual([["a", 3], ["b", 2]]);
});
