// Curves: uPlot in our colours. Zoom by dragging, back by a double click; all charts of a page share cursor and zoom.
import uPlot from "./uplot/uPlot.esm.js";
import { h, replace } from "./dom.js";
import { number, short, span } from "./format.js";
import { colour } from "./theme.js";

export const AXES = { step: "steps", "time/elapsed": "time", update: "updates" };

export function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, sum = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    mean = weight * mean + (1 - weight) * value;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

const label = (value, step) => (step && step < 1 && step >= 1e-4 && Math.abs(value) < 1e5 ? value.toFixed(Math.ceil(-Math.log10(step) - 1e-9)) : number(value));

const tick = (axis) => (axis === "time/elapsed" ? (x) => span(x).replace(/\.0 s$/, " s") : short);

export class Chart {
  // `lines`: [{label, y, low, high, colour, points}], over `x`. `onzoom(from, to)` or `onzoom(null)` when somebody zooms.
  constructor({ title, key, tall, onzoom }) {
    this.onzoom = onzoom;
    this.key = key;
    this.at = h("span", { class: "at" });
    this.now = h("span", { class: "now" });
    this.plot = h("div", { class: "plot" });
    this.chips = h("div", { class: "chips" });
    this.root = h("section", { class: `chart${tall ? " tall" : ""}`, "aria-label": title }, h("header", null, h("h3", { title }, title), this.at, this.now), this.plot, this.chips);
    this.sight = new ResizeObserver(() => this.fit());
    this.sight.observe(this.plot);
    this.state = { x: [], lines: [], axis: "step", log: false, weight: 0, range: null };
    this.built = "";
    addEventListener("theme", () => { this.built = ""; this.draw(); });
  }

  set(change) { Object.assign(this.state, change); this.draw(); }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (this.u && width && (this.u.width !== width || this.u.height !== height)) this.u.setSize({ width, height });
    else if (!this.u) this.draw();
  }

  columns() {
    const { lines, weight, log } = this.state;
    const safe = (values) => (log ? values.map((v) => (v > 0 ? v : null)) : values);
    const data = [this.state.x];
    for (const line of lines) {
      data.push(safe(smooth(line.y, line.points ? 0 : weight)));
      data.push(safe(line.low ?? line.y), safe(line.high ?? line.y));
    }
    return data;
  }

  draw() {
    const { lines, axis, log, range } = this.state;
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!width) return;
    const last = lines[0]?.y.findLast?.((v) => v !== null);
    this.now.textContent = lines.length === 1 && last !== undefined ? number(last) : "";
    replace(this.chips, lines.length > 1 ? lines.filter((line) => !line.quiet).map((line) => { const mark = h("i"); mark.style.background = colour(line.colour); return h("span", null, mark, line.label); }) : []);
    const shape = JSON.stringify([axis, log, lines.map((line) => [line.label, line.colour, !!line.points, !!line.low])]);
    const data = this.columns();
    if (this.u && this.built === shape) {
      this.u.batch(() => { this.u.setData(data, false); this.u.setScale("x", this.bounds()); this.u.redraw(); });
      return;
    }
    this.u?.destroy();
    this.built = shape;
    const text = colour("faint"), grid = { stroke: colour("grid"), width: 1 }, font = `11px ${colour("text")}`;
    const series = [{}], bands = [];
    lines.forEach((line, i) => {
      const stroke = colour(line.colour);
      series.push({ stroke, width: 1.75, spanGaps: true, points: { show: !!line.points, size: 6, fill: stroke } });
      series.push({ stroke: "transparent", width: 0, spanGaps: true, points: { show: false } }, { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } });
      bands.push({ series: [3 * i + 3, 3 * i + 2], fill: `color-mix(in srgb, ${stroke} ${lines.length > 3 ? 9 : 16}%, transparent)` });
    });
    this.u = new uPlot({
      width, height, series, bands, legend: { show: false },
      cursor: { sync: { key: this.key, setSeries: false, scales: ["x", null] }, points: { size: 7 }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: () => { const b = this.bounds(); return [b.min, b.max]; } }, y: { distr: log ? 3 : 1, range: log ? undefined : (u, low, high) => uPlot.rangeNum(low ?? 0, high ?? 1, 0.08, true) } },
      axes: [
        { stroke: text, font, grid: { show: false }, ticks: { show: false }, size: 26, space: 70, values: (u, marks) => marks.map(tick(axis)) },
        { stroke: text, font, grid, ticks: { show: false }, size: 52, space: 34, values: (u, marks, axis, space, step) => marks.map((v) => (v === null ? "" : label(v, step))) },
      ],
      hooks: {
        setCursor: [(u) => this.hover(u)],
        setSelect: [(u) => {
          if (u.select.width > 4) this.onzoom?.(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        ready: [(u) => u.over.addEventListener("dblclick", () => this.onzoom?.(null))],
      },
    }, data, this.plot);
  }

  bounds() {
    const { x, range } = this.state;
    if (range) return { min: range[0], max: range[1] };
    const first = x[0] ?? 0, last = x[x.length - 1] ?? 1;
    return { min: first, max: last > first ? last : first + 1 };
  }

  hover(u) {
    const i = u.cursor.idx;
    if (i === null || i === undefined || this.state.x[i] === undefined) { this.at.textContent = ""; return; }
    const values = this.state.lines.map((line) => line.y[i]).filter((v) => v !== null && v !== undefined);
    this.at.textContent = `${tick(this.state.axis)(this.state.x[i])}: ${values.slice(0, 4).map(number).join(", ")}`;
  }
}
