// Read the figures of an evaluation, of a council and of all costs off their pages.
//   FORUM_URL=... FORUM_KEY=... node figures.mjs COUNCIL

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , council] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);

/** The texts of the cells of a table, row by row; an amount by its exact value. */
async function readTable(label) {
  const table = page.getByRole("group", { name: label, exact: true });
  await table.waitFor();
  return table.locator("tbody tr").evaluateAll((rows) =>
    rows.map((row) =>
      [...row.children].map((cell) => {
        const exact = cell.querySelector("span[title^='$']");
        return exact ? exact.title : cell.innerText;
      }),
    ),
  );
}

await page.goto(`${url}/ui/#/scores`);
const figures = await readTable("Mean of a case");
const cases = await readTable("Cases");
const lanes = await readTable("Outcomes by lane");
const plays = await page
  .locator(".cases .play a")
  .evaluateAll((links) => links.map((link) => link.getAttribute("href")));
const check = await page.locator(".card-head .end").first().innerText();
const dots = await page
  .locator(".intervals")
  .first()
  .locator(".interval-mean")
  .evaluateAll((means) => means.map((mean) => Number.parseFloat(mean.style.left)));

await page.goto(`${url}/ui/#/run/${council}`);
const ballots = await readTable("Ballots by seat and round");
const conformity = await page.locator(".ballots .tone-bad").allInnerTexts();
const dissent = await page.locator(".arguments .note.wait").allInnerTexts();
const gain = await page.locator(".gain dd").allInnerTexts();

await page.goto(`${url}/ui/#/costs?by=lane`);
const days = await readTable("Cost of each day");
const byLane = await readTable("Cost by lane");
const noted = await readTable("Runs that a cap stopped or refused, or without a price");
const budgets = await readTable("Budgets");
const upstreams = await readTable("Upstreams");
const segments = await page.locator(".cost-bars rect title").allTextContents();
await page.getByRole("combobox").selectOption("model");
const byModel = await readTable("Cost by model");
await page.getByRole("button", { name: "7 days" }).click();
await readTable("Cost by model");
const hash = await page.evaluate(() => location.hash);
await page.getByLabel("Before").fill("2020-01-01");
await page.getByText("No costs in this period").waitFor();

await browser.close();
console.log(
  JSON.stringify({
    scores: { figures, cases, lanes, plays, check, dots },
    council: { ballots, conformity, dissent, gain },
    costs: { days, byLane, byModel, noted, budgets, upstreams, segments, hash },
    faults,
  }),
);
