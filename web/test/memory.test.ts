import { effect } from "@preact/signals";
import { expect, test } from "vitest";
import { keepSeen, readSeen } from "../src/api/memory";
import { describeOrigin } from "../src/model/memory";

test("whatever shows what is kept of a log is drawn again when it changes", () => {
  let drawn = 0;
  const stop = effect(() => {
    readSeen("log");
    drawn++;
  });
  keepSeen("log", { size: 112, root: "r", at: 1 });
  expect(drawn).toBe(2);
  stop();
});

test("keys that the server handed over are not called pinned by the reader", () => {
  const pin = { policy: "p", at: 1 };
  expect(describeOrigin(pin)).toBe("pinned by you");
  expect(describeOrigin({ ...pin, isHandedOver: true })).toMatch(/^handed over by Forum/);
});
