// Curves of one run. The main ones are always there; the others are fetched when they come into sight.
import { AXES, Chart } from "../chart.js";
import { get, h, replace } from "../dom.js";
import { segment } from "../pages/compare.js";

const MAIN = ["rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps"];
const WORTH = /^(train\/(?:[^/]+\/)?(loss|policy_loss|value_loss|approx_kl|entropy_loss|explained_variance|td_error|q_mean|lag)|eval\/mean_reward|rollout\/team_return)$/;
const MOST_MAIN = 6;
const FULL = 1400;

export class Curves {
  constructor(home) {
    this.home = home;
    this.charts = new Map();
    this.data = null;
    this.names = [];
    this.state = { axis: "step", log: false, weight: 0, range: null };
    this.sight = new IntersectionObserver((seen) => this.seen(seen), { rootMargin: "200px" });
    this.visible = new Set();
    this.mainGrid = h("div", { class: "charts" });
    this.allGrid = h("div", { class: "charts" });
    this.note = h("p", { class: "faint small" });
    this.filter = h("input", { type: "search", placeholder: "Filter metrics", "aria-label": "Filter metrics", oninput: () => this.arrange() });
    this.main = h("div", null, this.tools(), this.mainGrid, this.note);
    this.all = h("div", null, this.tools(this.filter), this.allGrid);
  }

  tools(extra) {
    const back = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.zoom(null) }, "Whole run");
    (this.backs ??= []).push(back);
    const change = (key) => (event) => { this.state[key] = key === "log" ? event.target.checked : Number(event.target.value); this.draw(); };
    return h("div", { class: "bar tools" }, extra, segment(Object.entries(AXES), "step", (axis) => { this.state.axis = axis; this.zoom(null); }),
      h("label", null, "smooth", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, "aria-label": "Smoothing", oninput: change("weight") })),
      h("label", null, h("input", { type: "checkbox", onchange: change("log") }), "log scale"), back);
  }

  take(run) {
    if (run.metrics.join() === this.names.join()) return;
    this.names = run.metrics;
    this.note.hidden = !run.sampled;
    this.note.textContent = run.sampled ? "A long run: evenly spread rows are drawn. Zoom in to see more of a stretch." : "";
    this.arrange();
    this.load();
  }

  arrange() {
    const main = [...MAIN.filter((name) => this.names.includes(name)), ...this.names.filter((name) => WORTH.test(name))].slice(0, MOST_MAIN);
    const words = this.filter.value.toLowerCase().split(/\s+/);
    const rest = this.names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    replace(this.mainGrid, main.map((name) => this.chart(`main ${name}`, name).root));
    replace(this.allGrid, rest.map((name) => this.chart(`all ${name}`, name).root));
  }

  chart(key, name) {
    if (!this.charts.has(key)) {
      const chart = new Chart({ title: name, key: this.home, onzoom: (from, to) => this.zoom(from === null ? null : [from, to]) });
      chart.name = name;
      chart.root.chart = chart;
      this.charts.set(key, chart);
      this.sight.observe(chart.root);
    }
    return this.charts.get(key);
  }

  seen(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.visible.add(target.chart); else this.visible.delete(target.chart);
    }
    if ([...this.visible].some((chart) => !this.data?.y || !(chart.name in this.asked))) this.load(); else this.draw();
  }

  // Everything in sight, for the stretch in sight; what is asked for while an answer is due is asked once more.
  async load() {
    if (this.busy) { this.again = true; return; }
    this.busy = true;
    try {
      do {
        this.again = false;
        const names = [...new Set([...this.visible].map((chart) => chart.name))].slice(0, 40);
        if (!names.length) break;
        const { axis, range } = this.state;
        const zoom = range ? `&from=${range[0]}&to=${range[1]}&x=${encodeURIComponent(axis)}` : "";
        const found = await get(`${this.home}/curves?${names.map((name) => `metric=${encodeURIComponent(name)}`).join("&")}${zoom}`);
        this.asked = Object.fromEntries(names.map((name) => [name, true]));
        this.data = found;
        this.draw();
      } while (this.again);
    } catch { /* the stream says when it is back */ } finally { this.busy = false; }
  }

  asked = {};

  // New rows, as they come: each is a point of its own at the end.
  add(rows) {
    if (!this.data || this.state.range) return;
    const added = rows.step?.length ?? 0;
    for (const axis of Object.keys(this.data.x)) this.data.x[axis].push(...(rows[axis] ?? new Array(added).fill(null)));
    for (const [name, y] of Object.entries(this.data.y)) {
      const values = rows[name] ?? new Array(added).fill(null);
      for (const column of [y.mean, y.low, y.high]) column.push(...values);
    }
    if ((this.data.x.step?.length ?? 0) > FULL) this.load(); else this.draw();
  }

  zoom(range) {
    this.state.range = range;
    for (const back of this.backs) back.hidden = range === null;
    this.load();
  }

  draw() {
    if (!this.data) return;
    const { axis, log, weight, range } = this.state;
    const x = this.data.x[axis] ?? [];
    for (const chart of this.visible) {
      const y = this.data.y[chart.name];
      if (!y) { if (this.asked[chart.name]) chart.set({ x: [], lines: [], axis, log, weight, range }); continue; }
      const sparse = y.mean.filter((v) => v !== null).length < Math.min(40, x.length / 3);
      chart.set({ x, axis, log, weight, range, lines: [{ label: chart.name, colour: "s0", y: y.mean, low: y.low, high: y.high, points: sparse }] });
    }
  }
}
