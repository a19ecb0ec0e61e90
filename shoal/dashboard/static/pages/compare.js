// Chosen runs side by side: their curves on one axis, and the settings in which they differ.
import { AXES, Chart } from "../chart.js";
import { get, h, replace } from "../dom.js";
import { number, short, span } from "../format.js";
import { pill } from "./runs.js";

const PALETTE = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
const AGAIN = 5000;

export async function show(main) {
  const names = new URLSearchParams(location.search).getAll("run");
  document.title = "Compare – Shoal";
  replace(document.getElementById("crumbs"), h("a", { href: "/" }, "Runs"), " / compare");
  document.getElementById("link").textContent = "";
  let metric = "rollout/ep_rew_mean", axis = "step", log = false, weight = 0, bands = false, range = null, found = null;

  const chart = new Chart({ title: metric, key: "compare", tall: true, onzoom: (from, to) => { range = from === null ? null : [from, to]; draw(); } });
  const title = chart.root.querySelector("h3");
  const choose = h("select", { "aria-label": "Metric", onchange: () => { metric = choose.value; load(); } });
  const axes = segment(Object.entries(AXES), axis, (key) => { axis = key; range = null; draw(); if (bands) load(); });
  const error = h("p", { class: "error", role: "alert" });
  const results = h("div", { class: "card scroll" }), settings = h("div", { class: "card scroll" });
  replace(main, h("div", { class: "head" }, h("h1", null, "Compare"), h("span", { class: "sub" }, `${names.length} runs`)),
    h("div", { class: "bar tools" }, choose, axes,
      h("label", null, h("input", { type: "checkbox", onchange: (event) => { bands = event.target.checked; load(); } }), "bands over seeds"),
      h("label", null, h("input", { type: "checkbox", onchange: (event) => { log = event.target.checked; draw(); } }), "log scale"),
      h("label", null, "smooth", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, "aria-label": "Smoothing", oninput: (event) => { weight = Number(event.target.value); draw(); } }))),
    error, chart.root, h("div", { class: "gap" }), results, settings);

  async function load() {
    try {
      const query = names.map((name) => `run=${encodeURIComponent(name)}`).join("&");
      found = await get(`/api/compare?${query}&metric=${encodeURIComponent(metric)}`);
      if (bands) {
        const groups = Object.entries(Object.groupBy ? Object.groupBy(names, (name) => name.split("/")[0]) : {});
        found.bands = await Promise.all(groups.map(async ([label, own]) => ({ label, ...(await get(`/api/runs/band?${own.map((n) => `run=${encodeURIComponent(n)}`).join("&")}&metric=${encodeURIComponent(metric)}&x=${encodeURIComponent(axis)}`)) })));
      }
      error.textContent = "";
    } catch (problem) { error.textContent = problem.message; return; }
    draw();
    tables();
  }

  function draw() {
    if (!found) return;
    title.textContent = metric;
    const curves = bands && found.bands ? found.bands.filter((b) => b.x.length).map((b) => ({ label: `${b.label} (${b.runs} runs)`, x: b.x, y: b.line, low: b.low, high: b.high }))
      : found.curves.filter((c) => c.y[metric] && c.x[axis]).map((c) => ({ label: c.run, x: c.x[axis], y: c.y[metric].mean }));
    const x = [...new Set(curves.flatMap((c) => c.x))].filter((v) => v !== null).sort((a, b) => a - b);
    const place = new Map(x.map((value, i) => [value, i]));
    const spread = (c, values) => { const y = new Array(x.length).fill(null); c.x.forEach((v, i) => { if (v !== null) y[place.get(v)] = values[i]; }); return y; };
    const lines = curves.map((c, i) => ({ label: c.label, colour: PALETTE[i % PALETTE.length], y: spread(c, c.y), low: c.low && spread(c, c.low), high: c.high && spread(c, c.high) }));
    chart.set({ x, lines, axis, log, weight, range });
  }

  function tables() {
    const current = found.metrics.includes(metric) ? found.metrics : [metric, ...found.metrics];
    if (choose.children.length !== current.length) replace(choose, current.map((name) => h("option", { value: name }, name)));
    choose.value = metric;
    replace(results, h("h2", null, "What became of them"), h("table", null,
      h("thead", null, h("tr", null, ["run", "state", "score", "return", "steps", "steps/s", "time"].map((t, i) => h("th", { scope: "col", class: i > 1 ? "num" : "" }, t)))),
      h("tbody", null, found.runs.map((run) => h("tr", null, h("td", null, h("a", { href: `/run/${run.run}` }, run.run)), h("td", null, pill(run)),
        h("td", { class: "num" }, run.score ? number(run.score.mean) : "–"), h("td", { class: "num" }, number(run.last)), h("td", { class: "num" }, short(run.steps)), h("td", { class: "num" }, short(run.fps)), h("td", { class: "num" }, span(run.elapsed)))))));
    const keys = Object.entries(found.differences);
    replace(settings, h("h2", null, "Settings that differ"), keys.length ? h("table", { class: "settings" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "setting"), found.runs.map((run) => h("th", { scope: "col" }, run.run)))),
      h("tbody", null, keys.map(([key, values]) => h("tr", null, h("th", { scope: "row", class: "mono" }, key), values.map((value) => h("td", null, value ?? "–")))))) : h("p", { class: "soft" }, "None: they differ in chance alone."));
  }

  if (names.length < 1) { replace(main, h("p", { class: "notice" }, "Choose runs in the table first.")); return; }
  await load();
  setInterval(() => { if (!document.hidden && found?.runs.some((run) => run.group === "live")) load(); }, AGAIN);
}

export function segment(choices, chosen, take) {
  const buttons = choices.map(([key, title]) => h("button", { type: "button", "aria-pressed": String(key === chosen), onclick: () => { for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.key === key)); take(key); }, "data-key": key }, title));
  return h("span", { class: "segment", role: "group" }, buttons);
}
