// All runs: a table that is always up to date, words to choose among them, and the way to compare some.
import { get, h, replace } from "../dom.js";
import { ago, count, number, short, span } from "../format.js";
import { live } from "../live.js";
import { spark } from "../spark.js";

const COLUMNS = [
  ["name", "run", ""], ["state", "state", ""], ["score", "score", "num"], ["return", "return", "num"], ["steps", "steps", "num"],
  ["fps", "steps/s", "num"], ["left", "time left", "num"], ["curve", "return over steps", ""], ["age", "written", "num"],
];
const SORTS = {
  name: (r) => r.run, state: (r) => ["live", "died", "done"].indexOf(r.group) + r.state, score: (r) => r.score?.mean, return: (r) => r.last,
  steps: (r) => r.steps, fps: (r) => r.fps, left: (r) => r.left, age: (r) => -r.written,
};

export function show(main) {
  document.title = "Runs – Shoal";
  const runs = new Map(), rows = new Map(), picked = new Set(), bands = new Map();
  let fits = null, sort = { key: "age", down: false }, grouped = recall("grouped") === "yes", known = false;

  const search = h("input", { type: "search", class: "grow", placeholder: "Filter: cartpole, state=running, algorithm.lr>0.001", "aria-label": "Filter runs by words", value: new URLSearchParams(location.search).get("q") ?? "" });
  const error = h("p", { class: "error", role: "alert" });
  const total = h("span", { class: "sub" });
  const group = h("button", { type: "button", "aria-pressed": String(grouped), onclick: () => { grouped = !grouped; keep("grouped", grouped ? "yes" : "no"); group.setAttribute("aria-pressed", String(grouped)); draw(); } }, "By experiment");
  const body = h("tbody");
  const heads = COLUMNS.map(([key, title, kind]) => {
    const button = SORTS[key] ? h("button", { type: "button", onclick: () => { sort = { key, down: sort.key === key ? !sort.down : ["score", "return", "steps", "fps"].includes(key) }; draw(); } }, title) : title;
    return [key, h("th", { class: kind, scope: "col" }, button)];
  });
  const table = h("div", { class: "table runs" }, h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { "aria-label": "choose" })), heads.map(([, th]) => th))), body));
  const empty = h("p", { class: "notice" }, "Looking for runs…");
  const tray = h("div", { class: "tray", hidden: true });
  replace(main, h("div", { class: "head" }, h("h1", null, "Runs"), total), h("div", { class: "bar tools" }, search, h("span", { class: "segment" }, group)), error, table, empty, tray);

  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, 150); });
  addEventListener("keydown", (event) => { if (event.key === "/" && document.activeElement === document.body) { event.preventDefault(); search.focus(); } });

  async function filter() {
    const words = search.value.trim();
    history.replaceState(null, "", words ? `/?q=${encodeURIComponent(words)}` : "/");
    try {
      const found = words ? await get(`/api/runs/match?words=${encodeURIComponent(words)}`) : null;
      if (!found?.error) fits = found && new Set(found.runs);
      error.textContent = found?.error ?? "";
    } catch (problem) { error.textContent = problem.message; }
    draw();
  }

  function draw() {
    const chosen = [...runs.values()].filter((run) => !fits || fits.has(run.run));
    const value = SORTS[sort.key];
    chosen.sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === y) return a.run < b.run ? -1 : 1;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (x < y ? -1 : 1) * (sort.down ? -1 : 1);
    });
    for (const [key, th] of heads) if (key === sort.key) th.setAttribute("aria-sort", sort.down ? "descending" : "ascending"); else th.removeAttribute("aria-sort");
    const wanted = grouped ? byExperiment(chosen) : chosen.map((run) => rows.get(run.run));
    wanted.forEach((row, i) => { if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null); });
    while (body.children.length > wanted.length) body.lastChild.remove();
    const states = { live: 0, died: 0, done: 0 };
    for (const run of runs.values()) states[run.group] += 1;
    total.textContent = known && runs.size ? `${runs.size} in all, ${states.live} live, ${states.done} done, ${states.died} died` : "";
    table.hidden = !chosen.length;
    empty.hidden = chosen.length > 0;
    empty.textContent = !known ? "Looking for runs…" : runs.size ? "No run fits." : "There are no runs yet. Start one: shoal train cartpole";
    const gone = [...picked].filter((name) => !runs.has(name));
    for (const name of gone) picked.delete(name);
    pick();
  }

  function byExperiment(chosen) {
    const groups = Map.groupBy ? Map.groupBy(chosen, (run) => run.name) : chosen.reduce((found, run) => found.set(run.name, [...(found.get(run.name) ?? []), run]), new Map());
    return [...groups].flatMap(([name, members]) => [header(name, members), ...members.map((run) => rows.get(run.run))]);
  }

  function header(name, members) {
    const known = bands.get(name) ?? { row: h("tr", { class: "group" }), key: "" };
    bands.set(name, known);
    const key = members.map((run) => `${run.run}:${run.steps}`).sort().join();
    if (known.key !== key) {
      known.key = key;
      const live = members.filter((run) => run.group === "live").length;
      known.curve ??= h("td", { class: "curve" });
      replace(known.row, h("td", { class: "pick" }), h("td", { class: "name", colspan: 6 }, members[0].population ? h("a", { href: `/population/${encodeURIComponent(name)}` }, name) : name, " ", h("span", { class: "soft small" }, `${members.length} run${members.length > 1 ? "s" : ""}${live ? `, ${live} live` : ""}`)), h("td"), known.curve, h("td"));
      const query = members.slice(0, 100).map((run) => `run=${encodeURIComponent(run.run)}`).join("&");
      if (members.length > 1) get(`/api/runs/band?${query}`).then((band) => replace(known.curve, spark(band.line, "", band))).catch(() => {});
      else replace(known.curve);
    }
    return known.row;
  }

  function pick() {
    tray.hidden = picked.size === 0;
    const address = `/compare?${[...picked].map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
    replace(tray, h("div", null, `${picked.size} chosen`, h("button", { type: "button", class: "primary", disabled: picked.size < 2, onclick: () => { location.href = address; } }, "Compare"), h("button", { type: "button", class: "quiet", onclick: () => { picked.clear(); for (const box of body.querySelectorAll("input")) box.checked = false; pick(); } }, "Clear")));
  }

  function fill(run) {
    let row = rows.get(run.run);
    if (!row) {
      row = h("tr", { class: "run" });
      rows.set(run.run, row);
      row.box = h("input", { type: "checkbox", "aria-label": `Choose ${run.run}`, onchange: (event) => { if (event.target.checked) picked.add(run.run); else picked.delete(run.run); pick(); } });
    }
    replace(row,
      h("td", { class: "pick" }, row.box),
      h("td", { class: "name" }, h("a", { href: `/run/${run.run}`, title: run.run }, run.run), h("span", { class: "soft small" }, run.population ? [h("a", { href: `/population/${encodeURIComponent(run.name)}` }, "population"), " · "] : null, [run.algorithm, run.env, run.seed && `seed ${run.seed}`].filter(Boolean).join(" · "))),
      h("td", { class: "state" }, pill(run), run.group !== "live" && run.why ? h("span", { class: "why", title: run.why }, run.why) : null),
      h("td", { class: "num score" }, run.score ? number(run.score.mean) : "–", run.score && run.score.low !== null ? h("span", { class: "interval" }, `${number(run.score.low)} to ${number(run.score.high)}`) : null),
      h("td", { class: "num return" }, number(run.last)),
      h("td", { class: "num steps" }, short(run.steps), run.goal ? h("span", { class: "faint" }, ` of ${short(run.goal)}`) : null, run.progress !== null ? meter(run.progress) : null),
      h("td", { class: "num fps" }, run.group === "live" ? count(run.fps) : h("span", { class: "faint" }, count(run.fps))),
      h("td", { class: "num left" }, run.group === "live" && run.left !== null ? span(run.left) : "–"),
      h("td", { class: "curve" }, spark(run.spark, run.group)),
      h("td", { class: "num age soft" }, ago(run.written)));
  }

  live("/api/runs/stream", {
    runs(told) {
      if (told.all) for (const name of [...runs.keys()]) if (!told.runs.some((run) => run.run === name)) drop(name);
      for (const run of told.runs) { runs.set(run.run, run); fill(run); }
      for (const name of told.gone) drop(name);
      known = true;
      if (search.value.trim() && (told.all || told.runs.some((run) => !fits?.has(run.run)))) filter(); else draw();
    },
  });

  setInterval(() => { for (const [name, row] of rows) row.querySelector(".age").textContent = ago(runs.get(name).written); }, 20_000);

  function drop(name) { runs.delete(name); rows.get(name)?.remove(); rows.delete(name); }
}

export const pill = (run) => h("span", { class: `pill ${run.state === "paused" ? "paused" : run.group} ${run.state}` }, run.group === "died" ? (run.state === "crashed" ? "died" : run.state) : run.state);

export function meter(fraction) {
  const bar = h("i");
  bar.style.width = `${Math.round(100 * Math.min(1, fraction))}%`;
  return h("span", { class: "meter" }, bar);
}

function recall(key) { try { return localStorage.getItem(key); } catch { return null; } }
function keep(key, value) { try { localStorage.setItem(key, value); } catch { /* it holds for this page */ } }
