// A curve in the table: a line from the first value to the last, nothing else.
import { svg } from "./dom.js";

const WIDTH = 120, HEIGHT = 30;

export function spark(values, kind, band) {
  const known = values.filter((value) => value !== null);
  const all = band ? [...known, ...band.low.filter(Number.isFinite), ...band.high.filter(Number.isFinite)] : known;
  const root = svg("svg", { class: `spark ${kind}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  if (known.length < 2) return root;
  const low = Math.min(...all), high = Math.max(...all), scale = high > low ? (HEIGHT - 4) / (high - low) : 0;
  const y = (value) => (scale ? HEIGHT - 2 - (value - low) * scale : HEIGHT / 2).toFixed(1);
  const x = (i) => ((i / (values.length - 1)) * WIDTH).toFixed(1);
  const line = values.map((value, i) => (value === null ? null : `${x(i)},${y(value)}`)).filter(Boolean);
  if (band) {
    const there = values.map((_, i) => i).filter((i) => Number.isFinite(band.low[i]) && Number.isFinite(band.high[i]));
    const edge = [...there.map((i) => `${x(i)},${y(band.high[i])}`), ...there.reverse().map((i) => `${x(i)},${y(band.low[i])}`)];
    if (edge.length) root.append(svg("path", { class: "area", d: `M${edge.join("L")}Z` }));
  } else {
    root.append(svg("path", { class: "area", d: `M${line.join("L")}L${line.at(-1).split(",")[0]},${HEIGHT}L${line[0].split(",")[0]},${HEIGHT}Z` }));
  }
  root.append(svg("path", { class: "line", d: `M${line.join("L")}` }));
  return root;
}
