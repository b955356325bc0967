// Make a key in the page, sign in with it elsewhere, revoke it, and wait until it is refused there.
//   FORUM_URL=... FORUM_KEY=... node access.mjs NAME

import { findFaultsInBothSchemes, openPage, startBrowser, url } from "./browser.mjs";

const [, , name] = process.argv;
const browser = await startBrowser();
const { page, faults, context } = await openPage(browser);
await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: url });
await page.goto(`${url}/ui/#/`);
await page.getByRole("link", { name: "Access" }).click();

const make = page.getByRole("button", { name: "Make the key" });
await make.click();
const complaints = await page.getByRole("alert").allInnerTexts();
await page.getByLabel("Name").fill(name);
await page.getByRole("checkbox", { name: /^read/ }).check();
await page.getByLabel("Valid for").selectOption("1 day");
await make.click();
const secret = await page.getByLabel("Secret of the new key").inputValue();
await page.getByRole("button", { name: "Copy" }).click();
await page.getByText("Copied").waitFor();
const copied = await page.evaluate(() => navigator.clipboard.readText());
await page.getByRole("button", { name: `Revoke ${name}` }).waitFor();
faults.push(...(await findFaultsInBothSchemes(page)));

const other = await openPage(browser, { held: "" });
await other.page.goto(`${url}/ui/`);
await other.page.getByLabel("Key").fill(secret);
await other.page.getByRole("button", { name: "Sign in" }).click();
await other.page.getByRole("heading", { name: "Runs" }).waitFor();
const who = await other.page.locator(".account .name").innerText();
faults.push(...other.faults);

await page.reload();
await page.getByRole("button", { name: `Revoke ${name}` }).waitFor();
const isKept = await page.evaluate((word) => {
  const stores = [localStorage, sessionStorage].map((store) => JSON.stringify({ ...store }));
  return [document.documentElement.outerHTML, document.cookie, ...stores].join().includes(word);
}, secret);
await page.getByRole("button", { name: `Revoke ${name}` }).click();
const dialog = page.getByRole("dialog");
await dialog.waitFor();
faults.push(...(await findFaultsInBothSchemes(page)));
await dialog.getByRole("button", { name: "Cancel" }).click();
await dialog.waitFor({ state: "detached" });
const isValidAfterCancel = await page.getByRole("button", { name: `Revoke ${name}` }).isVisible();
await page.getByRole("button", { name: `Revoke ${name}` }).click();
await dialog.getByRole("button", { name: "Revoke" }).click();
await page.getByText("revoked", { exact: true }).waitFor();
await other.page.getByRole("heading", { name: "Sign in with a key" }).waitFor();
await browser.close();
console.log(
  JSON.stringify({ secret, copied, complaints, who, isKept, isValidAfterCancel, faults }),
);
