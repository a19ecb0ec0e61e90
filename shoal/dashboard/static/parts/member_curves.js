// The curves of all members on one axis. Of many, the best have colours; so has the one that somebody points at.
import { Chart } from "../chart.js";
import { get, h, replace } from "../dom.js";
import { shade } from "./lineage.js";

const COLOURED = 16;
const AGAIN = 3000;

export class MemberCurves {
  constructor(home) {
    this.home = home;
    this.metric = "score";
    this.members = [];
    this.state = { log: false, weight: 0, range: null };
    this.chart = new Chart({ title: this.metric, key: home, tall: true, onzoom: (from, to) => { this.state.range = from === null ? null : [from, to]; this.draw(); } });
    this.choose = h("select", { "aria-label": "Metric", onchange: () => { this.metric = this.choose.value; this.chosen = true; this.load(); } });
    const change = (key) => (event) => { this.state[key] = key === "log" ? event.target.checked : Number(event.target.value); this.draw(); };
    this.root = h("section", { class: "gap", "aria-label": "Curves" }, h("div", { class: "bar tools" }, this.choose,
      h("label", null, "smooth", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, "aria-label": "Smoothing", oninput: change("weight") })),
      h("label", null, h("input", { type: "checkbox", onchange: change("log") }), "log scale")), this.chart.root);
  }

  take(members) {
    const first = !this.members.length;
    this.members = members;
    // A sweep has one score, at the end: until somebody chooses, what is drawn is what can be.
    if (!this.chosen && members.every((member) => member.turns < 2)) this.metric = "rollout/ep_rew_mean"; else if (!this.chosen) this.metric = "score";
    const wait = first ? 0 : AGAIN - (Date.now() - (this.asked ?? 0));
    this.timer ??= setTimeout(() => { this.timer = null; this.load(); }, Math.max(0, wait)); // the last change is drawn too
  }

  async load() {
    this.asked = Date.now();
    let found;
    try { found = await get(`${this.home}/curves?metric=${encodeURIComponent(this.metric)}`); } catch { return; } // the stream says when it is back
    if (found.metric !== this.metric) return;
    this.found = found;
    if (this.choose.children.length !== found.metrics.length) replace(this.choose, found.metrics.map((name) => h("option", { value: name }, name === "score" ? "score at the end of turns" : name)));
    this.choose.value = this.metric;
    this.draw();
  }

  light(member) { this.lit = member; this.draw(); }

  draw() {
    if (!this.found) return;
    this.chart.root.querySelector("h3").textContent = this.metric;
    const curves = this.found.curves.filter((curve) => curve.x.length);
    const rank = new Map([...this.members].sort((a, b) => (b.score?.mean ?? -Infinity) - (a.score?.mean ?? -Infinity)).map((member, i) => [member.member, i]));
    const number = new Map(this.members.map((member, i) => [member.member, i]));
    const x = [...new Set(curves.flatMap((curve) => curve.x))].filter((value) => value !== null).sort((a, b) => a - b);
    const place = new Map(x.map((value, i) => [value, i]));
    const lines = curves.map((curve) => {
      const y = new Array(x.length).fill(null);
      curve.x.forEach((value, i) => { if (value !== null) y[place.get(value)] = curve.y[i]; });
      const best = curves.length <= COLOURED || rank.get(curve.member) < COLOURED;
      const coloured = this.lit && curves.some((each) => each.member === this.lit) ? curve.member === this.lit : best;
      return { label: curve.member, y, colour: coloured ? shade(number.get(curve.member) ?? 0) : "line-2", quiet: !best, points: this.metric === "score", coloured };
    });
    lines.sort((a, b) => a.coloured - b.coloured); // those on top are drawn last
    this.chart.set({ x, lines, axis: "step", ...this.state });
  }
}
