// Numbers as people read them.

const DASH = "–";
const missing = (x) => x === null || x === undefined || !Number.isFinite(x);

export const count = (x) => (missing(x) ? DASH : Math.round(x).toLocaleString("en"));

export function short(x) {
  if (missing(x)) return DASH;
  const size = Math.abs(x);
  if (size >= 1e9) return `${trim(x / 1e9)} G`;
  if (size >= 1e6) return `${trim(x / 1e6)} M`;
  if (size >= 1e4) return `${trim(x / 1e3)} k`;
  return Math.round(x).toLocaleString("en");
}

const trim = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2)).replace(/\.?0+$/, (m) => (m.includes(".") ? "" : m));

export function number(x) {
  if (missing(x)) return DASH;
  const size = Math.abs(x);
  if (size >= 1e5) return short(x);
  if (size >= 100) return x.toLocaleString("en", { maximumFractionDigits: 1 });
  if (size >= 1) return x.toLocaleString("en", { maximumFractionDigits: 2 });
  if (size === 0) return "0";
  return size >= 1e-3 ? Number(x.toPrecision(3)).toString() : x.toExponential(1);
}

export const percent = (x) => (missing(x) ? DASH : `${Math.round(100 * x)} %`);

export function span(seconds) {
  if (missing(seconds)) return DASH;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
  return `${Math.round(minutes / 1440)} days`;
}

export function ago(stamp) {
  const seconds = Date.now() / 1000 - stamp;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function bytes(x) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (x >= size) return `${(x / size).toFixed(1)} ${unit}`;
  return `${x} B`;
}

export const clock = (iso) => (iso ? new Date(iso).toLocaleTimeString("en-GB") : "");
export const day = (iso) => (iso ? new Date(iso).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : "");
