// Read a gate of a reported run, while its program opens another one with a nearer deadline and a
// longer text; decide both with the keyboard. Print what was offered, shown and decided.
//   FORUM_URL=... FORUM_KEY=... node decide.mjs REPORT_KEY LONG_TEXT

import { findFaultsInBothSchemes, openPage, startBrowser, url } from "./browser.mjs";

const [, , reportKey, longText] = process.argv;
const report = (items) =>
  fetch(`${url}/api/v1/reports`, {
    method: "POST",
    headers: { authorization: `Bearer ${reportKey}`, "content-type": "application/json" },
    body: JSON.stringify({ items }),
  });
const openGate = (run, shown, milliseconds) =>
  report([
    { type: "start", run, name: run, told: "reported" },
    { type: "gate", run, subject: "plan", shown, milliseconds },
  ]);

await openGate("rivers-0001", "List three rivers.", 7_200_000);
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
const approve = page.getByRole("button", { name: /^Approve/ });
await page.goto(`${url}/ui/#/gates`);
await page.locator(".gate pre", { hasText: "List three rivers." }).waitFor();
const atOnce = await approve.isDisabled();
const first = page.url();

// Another gate comes to the top of the list; the one that is being read stays.
await openGate("transfer-0001", longText, 3_600_000);
await page.locator(".gates li").nth(1).waitFor();
const second = page.url();
await page.getByRole("button", { name: /^Approve/, disabled: false }).waitFor();
await page.keyboard.press("a");
const dialog = await page.getByRole("dialog").innerText();
faults.push(...(await findFaultsInBothSchemes(page)));
await page.keyboard.press("Enter");
await page.getByText("The decision is in the log").waitFor();

// The end of the long text is below the screen, and cannot be approved from above.
const listed = await page.locator(".gates").innerText();
await page.goto(`${url}/ui/#/gates/transfer-0001/plan`);
await page.getByText("recomputed from the text above").waitFor();
await page.getByRole("button", { name: /^Reject/, disabled: false }).waitFor();
const unread = await approve.isDisabled();
const hint = await page.locator(".gate").innerText();
await page.keyboard.press("a");
const early = await page.getByRole("dialog").count();
// A jump to the end shows no middle.
await page.keyboard.press("End");
await page.waitForTimeout(1500);
const jumped = await approve.isDisabled();
for (let at = 0; at < (await page.evaluate(() => document.body.scrollHeight)); at += 400) {
  await page.evaluate((top) => scrollTo(0, top), at);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}
await page.getByRole("button", { name: /^Approve/, disabled: false }).waitFor();
await approve.click();
const whole = await page.getByRole("dialog").innerText();

// Letters that are written from the right to the left stand where they stand in the text.
const mixed = '{"limits":["\u05d0\u05d1",1,1000000,"\u0627\u0628"],"note":"x"}';
await openGate("mixed-0001", mixed, 3_600_000);
await page.goto(`${url}/ui/#/gates/mixed-0001/plan`);
await page.locator(".gate pre", { hasText: "limits" }).waitFor();
const swapped = await page.locator(".gate pre", { hasText: "limits" }).evaluate((element) => {
  const [text] = element.childNodes;
  const lefts = Array.from(text.data, (_, at) => {
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect().left;
  });
  return lefts.filter((left, at) => at > 0 && left < lefts[at - 1]).length;
});
await browser.close();
console.log(
  JSON.stringify({
    atOnce,
    first,
    second,
    dialog,
    listed,
    unread,
    jumped,
    hint,
    early,
    whole,
    swapped,
    faults,
  }),
);
