// Measure the run list, and the scrolling of a long run, and print the figures as JSON:
//   FORUM_URL=... FORUM_KEY=... node scale.mjs RUN [TIMES]
// CPU is that of the renderer's main thread. Memory is what the renderer shares with nobody.

import { readFileSync } from "node:fs";
import { openPage, startBrowser, url } from "./browser.mjs";

const [, , run, times = "5"] = process.argv;
const STEP_PX = 400;
const browser = await startBrowser();
const lists = [];
const scrolls = [];
for (let time = 0; time < Number(times); time++) {
  lists.push(await measureList());
  scrolls.push(await measureScrolling());
}
await browser.close();
console.log(
  JSON.stringify({
    list_cpu_ms: median(lists.map((list) => list.cpu_ms)),
    list_rows: lists[0].rows,
    longest_frame_ms: median(scrolls.map((scroll) => scroll.longest_ms)),
    longest_task_ms: median(scrolls.map((scroll) => scroll.task_ms)),
    scroll_frames: scrolls[0].frames,
    scrolled_to: scrolls[0].last,
    memory_mb: Math.max(...lists.map((list) => list.memory), ...scrolls.map((s) => s.memory)),
    faults: [...lists, ...scrolls].flatMap((measured) => measured.faults),
  }),
);

/** Open the list of runs as a newcomer: nothing is cached. */
async function measureList() {
  const { page, faults, context } = await openPage(browser);
  const devtools = await openDevtools(page);
  await page.goto(`${url}/ui/#/`);
  await page.waitForSelector("table.runs tbody tr");
  await page.evaluate(nextFrame);
  const figures = {
    cpu_ms: await readCpu(devtools),
    rows: await page.locator("table.runs tbody tr").count(),
    memory: await readMemory(),
    faults,
  };
  await context.close();
  return figures;
}

/** Scroll the entries of a run from the first to the last, a step for each frame. */
async function measureScrolling() {
  const { page, faults, context } = await openPage(browser);
  await page.goto(`${url}/ui/#/run/${run}`);
  await page.getByRole("tab", { name: /^Entries/ }).click();
  const list = page.getByRole("region", { name: "Entries" });
  await list.locator("button.entry").first().waitFor();
  // The page follows its run: all entries have to be there before the list is scrolled.
  await page.waitForLoadState("networkidle");
  const scrolled = await list.evaluate(scrollThrough, STEP_PX);
  const last = await list.locator("button.entry .number").last().textContent();
  const figures = { ...scrolled, last: Number(last), memory: await readMemory(), faults };
  await context.close();
  return figures;
}

/** Runs in the page. */
async function scrollThrough(list, step) {
  // A list in the page has the height of its content, and scrolls with the page.
  const box = list.scrollHeight > list.clientHeight + 1 ? list : document.scrollingElement;
  const tasks = [];
  new PerformanceObserver((seen) => {
    tasks.push(...seen.getEntries().map((task) => task.duration));
  }).observe({ type: "longtask" });
  const moments = [];
  await new Promise((done) => {
    requestAnimationFrame(function scroll(moment) {
      moments.push(moment);
      if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) return done();
      box.scrollTop += step;
      requestAnimationFrame(scroll);
    });
  });
  const frames = moments.slice(1).map((moment, at) => moment - moments[at]);
  return { frames: frames.length, longest_ms: Math.max(...frames), task_ms: Math.max(0, ...tasks) };
}

async function openDevtools(page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable");
  return devtools;
}

async function readCpu(devtools) {
  const { metrics } = await devtools.send("Performance.getMetrics");
  return Math.round(1000 * metrics.find((metric) => metric.name === "TaskDuration").value);
}

/** Megabytes of the largest renderer, which is that of the page. */
async function readMemory() {
  const devtools = await browser.newBrowserCDPSession();
  const { processInfo } = await devtools.send("SystemInfo.getProcessInfo");
  await devtools.detach();
  const renderers = processInfo.filter((process) => process.type === "renderer");
  return Math.max(...renderers.map((process) => privateMegabytes(process.id)));
}

function privateMegabytes(id) {
  const lines = readFileSync(`/proc/${id}/smaps_rollup`, "utf8").split("\n");
  const sizes = lines.filter((line) => line.startsWith("Private_"));
  const kilobytes = sizes.reduce((sum, line) => sum + Number(line.match(/\d+/)[0]), 0);
  return Math.round(kilobytes / 1024);
}

function nextFrame() {
  return new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
  });
}

function median(numbers) {
  return Math.round([...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)]);
}
