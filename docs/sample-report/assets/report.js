// Everything that a page of the report can do besides being read: search, sorting, keys, the theme, recordings.
// The page is whole without it. It loads nothing but files beside the page, and only when a recording is opened.
"use strict";

const IDLE_SECONDS = 2; // longer pauses of a recording are shortened to this, as pages.py says on the page
const ROOT = document.body.dataset.root;
const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
const one = (id) => document.getElementById(id);

for (const part of all("[data-scripted]")) part.hidden = false;

/* Theme: dark, light, or that of the system; remembered where storage works. */

function nextTheme() {
  const themes = ["", "dark", "light"];
  const root = document.documentElement;
  const theme = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  nameTheme();
  try {
    localStorage.setItem("selftest-theme", theme);
  } catch (error) {
    // Not remembered: the theme holds for this page.
  }
}

function nameTheme() {
  one("theme").textContent = `Theme: ${document.documentElement.dataset.theme || "system"}`;
}

nameTheme();
one("theme").addEventListener("click", nextTheme);
one("keys").addEventListener("click", () => one("help").showModal());

/* The table of tests: search, filters, sorting. */

const table = one("test-rows");
const rows = table ? all("tbody tr", table) : [];

if (table) {
  const search = one("search");
  const state = one("state");
  const agent = one("agent");
  const differs = one("differs");
  const form = search.form;
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  // A thousand rows take long to draw: those below appear when one scrolls to them.
  const SOME = 200;
  let most = SOME;

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const name = agent.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const text = texts.get(row);
      const matches =
        words.every((word) => text.includes(word)) &&
        (!state.value || (state.value === "open" ? "open" in row.dataset : row.dataset.state === state.value)) &&
        (!name || row.dataset.agent.toLowerCase().includes(name)) &&
        (!differs.checked || "differs" in row.dataset);
      if (matches) shown += 1;
      row.hidden = !matches || shown > most;
    }
    one("more").hidden = shown <= most;
    one("more").querySelector("button").textContent = `Show ${shown - most} more`;
    one("shown").textContent = shown === rows.length ? `${shown}` : `${shown} of ${rows.length}`;
    one("none").hidden = shown > 0;
  };

  const remember = () => {
    const filters = new URLSearchParams();
    if (search.value) filters.set("search", search.value);
    if (state.value) filters.set("state", state.value);
    if (agent.value) filters.set("agent", agent.value);
    if (differs.checked) filters.set("differs", "1");
    try {
      history.replaceState(null, "", filters.size ? `#${filters}` : "#tests");
    } catch (error) {
      // Some browsers refuse this for pages from disk: the filters are then forgotten with the page.
    }
  };

  const recall = () => {
    const filters = new URLSearchParams(location.hash.slice(1));
    if (!["search", "state", "agent", "differs"].some((name) => filters.has(name))) return;
    search.value = filters.get("search") || "";
    state.value = filters.get("state") || "";
    agent.value = filters.get("agent") || "";
    differs.checked = filters.has("differs");
    filter();
    one("tests").scrollIntoView();
  };

  const showMore = () => {
    most += SOME;
    filter();
  };
  one("more").querySelector("button").addEventListener("click", showMore);
  new IntersectionObserver(([seen]) => seen.isIntersecting && showMore()).observe(one("more"));
  window.addEventListener("beforeprint", () => {
    most = Infinity;
    filter();
  });

  const changed = () => {
    most = SOME;
    filter();
    remember();
  };
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  one("clear").addEventListener("click", () => form.reset());
  window.addEventListener("hashchange", recall);
  filter();
  table.classList.remove("fresh");
  recall();

  all("thead th", table).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isDown = head.getAttribute("aria-sort") === "ascending";
      for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const isNumber = rows.every((row) => value(row) !== "" && !Number.isNaN(Number(value(row))));
      const sign = isDown ? -1 : 1;
      const order = new Intl.Collator(undefined, { numeric: true });
      const sorted = rows
        .map((row) => [value(row), row])
        .sort(([a], [b]) => sign * (isNumber ? a - b : order.compare(a, b)))
        .map(([, row]) => row);
      table.tBodies[0].append(...sorted);
      rows.splice(0, rows.length, ...sorted);
      most = SOME;
      filter();
    });
  });
}

/* Recordings: a script each, loaded when it is opened, since a page from disk can load nothing else. */

const arrived = new Map(); // the name of a recording, and what waits for its lines

// Each script of a recording calls this, with a header and events of asciicast v2.
window.selftestRecording = (name, lines) => {
  const waiting = arrived.get(name);
  if (waiting) waiting(lines);
};

const loading = new Map();

function load(source) {
  if (!loading.has(source)) {
    loading.set(
      source,
      new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = source;
        script.addEventListener("load", done);
        script.addEventListener("error", () => failed(new Error(`${source} cannot be loaded`)));
        document.head.append(script);
      }),
    );
  }
  return loading.get(source);
}

function loadStyle(source) {
  if (document.querySelector(`link[href="${source}"]`)) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = source;
  document.head.append(link);
}

const opened = new WeakMap(); // the part of the page, and a promise of its player and events

// The player's time of a moment of the recording: pauses before it are shortened.
function shortened(events, at) {
  let shift = 0;
  let last = 0;
  for (const [time] of events) {
    if (time > at) break;
    shift += Math.max(time - last - IDLE_SECONDS, 0);
    last = time;
  }
  return at - shift - Math.max(at - last - IDLE_SECONDS, 0);
}

function open(part) {
  if (!opened.has(part)) opened.set(part, play(part));
  return opened.get(part);
}

async function play(part) {
  const screen = part.querySelector(".screen");
  const button = part.querySelector("button.open");
  button.disabled = true;
  button.textContent = "Loading …";
  try {
    loadStyle(`${ROOT}assets/asciinema-player/asciinema-player.css`);
    const lines = await new Promise((done, failed) => {
      arrived.set(part.dataset.name, done);
      load(part.dataset.script).catch(failed);
    });
    await load(`${ROOT}assets/asciinema-player/asciinema-player.min.js`);
    const player = AsciinemaPlayer.create({ data: lines }, screen, {
      fit: "width",
      idleTimeLimit: IDLE_SECONDS,
      terminalFontSize: "small",
      preload: true,
      poster: "npt:0",
      terminalFontFamily: getComputedStyle(document.querySelector("code, kbd")).fontFamily,
    });
    button.parentElement.hidden = true;
    return { player, events: lines.slice(1) };
  } catch (error) {
    button.textContent = `This recording cannot be opened: ${error.message}`;
    throw error;
  }
}

const recordings = all(".recording[data-script]");
for (const part of recordings) {
  part.querySelector("button.open").addEventListener("click", () =>
    open(part)
      .then(({ player }) => player.play())
      .catch(() => {}),
  );
}

// `#t=134` is second 134 of the page's first recording, `#recording=NAME&t=134` that of another one.
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!wanted.has("t")) return;
  const at = Number(wanted.get("t"));
  const name = wanted.get("recording");
  const part = name === null ? recordings[0] : recordings.find((one) => one.dataset.name === name);
  if (!part || !Number.isFinite(at)) return;
  part.scrollIntoView({ block: "start" });
  open(part)
    .then(async ({ player, events }) => {
      await player.seek(shortened(events, at));
      await player.pause();
      part.dataset.at = String(at);
      part.querySelector(".screen").scrollIntoView({ block: "nearest" });
    })
    .catch(() => {});
}

// The same link again must work too, and the hash does not change then.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#']");
  if (link && link.hash === location.hash) follow();
});
window.addEventListener("hashchange", follow);
follow();

/* What is folded is opened by a link to it, and on paper. */

function unfold() {
  const name = decodeURIComponent(location.hash.slice(1));
  // Of a long conversation only the beginning and the end are on the page.
  let part = name && (one(name) || (name.startsWith("said-") ? one("conversation") : null));
  const target = part;
  for (; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
}

function unfoldSafely() {
  try {
    unfold();
  } catch (error) {
    // A hash that is no valid text: there is nothing to unfold.
  }
}

window.addEventListener("hashchange", unfoldSafely);
unfoldSafely();
window.addEventListener("beforeprint", () => all("details").forEach((part) => (part.open = true)));

/* Keys. */

function stops() {
  if (table) return rows.filter((row) => !row.hidden).length ? all("tbody tr:not([hidden]) th a", table) : [];
  return all(document.body.classList.contains("change") ? ".hunk" : "main section > h2");
}

function step(by) {
  const places = stops();
  if (!places.length) return;
  const focused = document.activeElement;
  let at = places.findIndex((place) => place === focused || place.contains(focused) || place === last);
  at = at < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(Math.max(at + by, 0), places.length - 1);
  last = places[at];
  if (last.tabIndex < 0) last.tabIndex = -1;
  last.focus({ preventScroll: true });
  last.scrollIntoView({ block: table ? "center" : "start" });
}

let last = null;

function go(selector) {
  const link = document.querySelector(selector);
  if (link) link.click();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  n: () => go("a[rel=next]"),
  p: () => go("a[rel=prev]"),
  u: () => go("a.home"),
  t: nextTheme,
  r: () => recordings.length && (location.hash = "t=0"),
  "?": () => one("help").showModal(),
  "/": () => {
    const search = one("search");
    if (!search) return go("a.home");
    search.scrollIntoView({ block: "center" });
    search.focus();
    search.select();
  },
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || one("help").open || event.target.closest(".ap-player")) return;
  if (event.key === "Escape") {
    if (field) field.blur();
    else if (table) one("search").form.reset();
    else go("a.home");
    return;
  }
  if (field || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});
