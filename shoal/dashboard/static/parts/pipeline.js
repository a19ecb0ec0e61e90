// The run as a drawing: who works, who waits for whom, what lies in between, and what holds it back.
import { h, replace, svg } from "../dom.js";
import { percent, short } from "../format.js";

const STATES = ["worked", "inference", "waited_input", "waited_slot"];
const LABELS = { actor: ["actor", "actors"], policy: ["policy worker", "policy workers"], buffer: ["buffer", "buffers"], trainer: ["trainer", "trainers"] };
const WORDS = { actor: "stepping", policy: "deciding", buffer: "keeping and drawing", trainer: "learning" };
const WAITS = {
  actor: { waited_input: "for decisions", waited_slot: "for the trainer" }, policy: { waited_input: "for actors", waited_slot: "for actors" },
  buffer: { waited_input: "for actors", waited_slot: "for the trainer" }, trainer: { waited_input: "for experience", waited_slot: "for its turn" },
};
const HOLDS = { sampling: ["actor"], inference: ["policy", "actor"], learning: ["trainer"], replay: ["buffer"] }; // who is drawn bold
const BOX = { width: 218, height: 128 }, GAP = 132;

export function pipeline() {
  const drawing = h("div"), sentence = h("p", { class: "sentence" }), legend = h("div", { class: "legend" }), table = h("div");
  const details = h("details", null, h("summary", null, "Every worker"), table);
  let shown = null, width = 0;
  const sight = new ResizeObserver(([entry]) => { if (Math.abs(entry.contentRect.width - width) > 4) { width = entry.contentRect.width; draw(); } });
  const root = h("div", null, h("div", { class: "flow" }, drawing, h("div", null, sentence, legend)), details);
  sight.observe(drawing);
  replace(legend, [["worked", "works"], ["inference", "decides"], ["waited_input", "waits for something to work on"], ["waited_slot", "waits for room"]].map(([state, word]) => h("span", null, h("i", { class: `fill-${state}` }), word)));

  function draw() {
    if (!shown || !width) return;
    replace(drawing, shown.workers.length ? picture(shown, width) : h("p", { class: "soft" }, "No row says yet where the time goes."));
    sentence.hidden = !shown.sentence;
    sentence.textContent = shown.sentence ? shown.sentence.replace(/^bottleneck: /, "Bottleneck: ") : "";
    const named = shown.workers.flatMap((kind) => kind.names.map((worker) => [kind, worker]));
    details.hidden = !named.length;
    replace(table, h("div", { class: "scroll" }, h("table", { class: "workers" }, h("thead", null, h("tr", null, ["worker", "process", "state", "restarts", "where its time goes", "busy"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", null, named.map(([, worker]) => row(worker))))));
  }
  return { root, take(found) { shown = found; draw(); } };
}

function row(worker) {
  const shares = h("span", { class: "shares" }, STATES.map((state) => { const part = h("i", { class: `fill-${state}` }); part.style.width = `${100 * (worker.shares[state] ?? 0)}%`; return part; }));
  return h("tr", null, h("td", null, worker.node ? `${worker.name} on ${worker.node}` : worker.name), h("td", { class: "mono" }, worker.pid ?? "–"), h("td", null, worker.state ?? "–"), h("td", null, worker.restarts ?? "–"), h("td", null, shares), h("td", { class: "num" }, Object.keys(worker.shares).length ? percent(busy(worker.shares)) : "–"));
}

const busy = (shares) => (shares.worked ?? 0) + (shares.inference ?? 0);

// Left to right where there is room, top to bottom on a phone.
function picture(shown, width) {
  const find = (kind) => shown.workers.find((each) => each.kind === kind);
  const chain = ["actor", "buffer", "trainer"].map(find).filter(Boolean);
  const policy = find("policy"), others = shown.workers.filter((each) => !LABELS[each.kind]);
  const word = /^bottleneck: (\w+)/.exec(shown.sentence ?? "")?.[1], held = (HOLDS[word] ?? []).map(find).find(Boolean);
  const across = chain.length * BOX.width + (chain.length - 1) * GAP <= width;
  const gap = across ? Math.min(280, (width - 4 - chain.length * BOX.width) / Math.max(1, chain.length - 1)) : 74;
  const box = across ? BOX : { width: Math.min(width, 340), height: BOX.height };
  const root = svg("svg", { class: "pipeline", role: "img", "aria-label": told(shown) });
  const place = (i) => (across ? [i * (box.width + gap), 0] : [0, i * (box.height + gap)]);
  chain.forEach((kind, i) => {
    const [x, y] = place(i);
    root.append(worker(kind, x, y, box, kind === held));
    if (i < chain.length - 1) root.append(between(shown.flow, kind, chain[i + 1], x, y, box, gap, across));
  });
  let height = across ? box.height : chain.length * (box.height + gap) - gap;
  const first = place(0), last = place(chain.length - 1);
  if (chain.length > 1) {
    root.append(back(shown.flow, first, last, box, across));
    if (across) height += 58;
  }
  if (policy) {
    const y = height + 26;
    root.append(worker(policy, 0, y, box, policy === held), arrow(`M${box.width / 2},${y} V${across ? box.height + 4 : height + 4}`, true));
    root.append(text(box.width / 2 + 10, y - 9, "decisions", "dim"));
    height = y + box.height;
  }
  if (others.length) {
    height += 26;
    root.append(text(0, height, `beside them: ${others.map((each) => `${each.count > 1 ? `${each.count} ` : ""}${each.kind}${Object.keys(each.shares).length ? ` (${percent(busy(each.shares))} busy)` : ""}`).join(", ")}`, "dim"));
    height += 6;
  }
  root.setAttribute("viewBox", `-2 -2 ${width} ${height + 6}`);
  root.setAttribute("height", height + 6);
  return root;
}

function worker(kind, x, y, box, hot) {
  const [one, many] = LABELS[kind.kind] ?? [kind.kind, kind.kind], known = Object.keys(kind.shares).length > 0;
  const group = svg("g", { transform: `translate(${x},${y})` }, svg("rect", { class: `box${hot ? " hot" : ""}`, width: box.width - 4, height: box.height, rx: 11 }));
  group.append(text(14, 25, kind.count > 1 ? `${kind.count} ${many}` : one, "title"));
  if (kind.restarts) group.append(text(box.width - 18, 25, `${kind.restarts} restart${kind.restarts > 1 ? "s" : ""}`, "bad", "end"));
  group.append(svg("text", { x: 14, y: 57 }, svg("tspan", { class: "big" }, known ? percent(busy(kind.shares)) : "–"), svg("tspan", { class: "dim", dx: 8 }, known ? WORDS[kind.kind] ?? "busy" : "no time told")));
  let at = 14;
  const length = box.width - 32;
  for (const state of STATES) {
    const part = Math.max(0, Math.min(1, kind.shares[state] ?? 0)) * length;
    if (part > 0.5) group.append(svg("rect", { class: `fill-${state}`, x: at, y: 70, width: part, height: 9, rx: 2 }, svg("title", null, `${state.replace("_", " ")} ${percent(kind.shares[state])}`)));
    at += part;
  }
  const waits = ["waited_input", "waited_slot"].filter((state) => (kind.shares[state] ?? 0) >= 0.005).map((state) => `waits ${percent(kind.shares[state])} ${(WAITS[kind.kind] ?? {})[state] ?? ""}`);
  waits.slice(0, 2).forEach((line, i) => group.append(text(14, 98 + 16 * i, line, "dim")));
  return group;
}

// Slots between two workers: full ones are rows on their way.
function between(flow, from, to, x, y, box, gap, across) {
  const group = svg("g");
  const replay = from.kind === "buffer";
  const filled = replay ? (flow.kept ? flow.held / flow.kept : null) : flow.room ? flow.rows.in_flight / flow.room : null;
  const label = replay ? `${short(flow.held)} rows kept` : `${short(flow.rows.in_flight)} rows in flight`;
  const slots = 6, size = 11;
  if (across) {
    const middle = y + box.height / 2, begin = x + box.width - 4, end = x + box.width + gap - 2, wide = slots * (size + 3) - 3, at = (begin + end - wide) / 2;
    group.append(arrow(`M${begin + 2},${middle} H${end - 6}`));
    for (let i = 0; i < slots; i++) group.append(slot(at + i * (size + 3), middle - size / 2, size, filled, i, slots));
    group.append(text((begin + end) / 2, middle - 16, label, "dim", "middle"));
    if (filled !== null && Number.isFinite(filled)) group.append(text((begin + end) / 2, middle + 24, `${percent(Math.min(1, filled))} full`, "dim", "middle"));
  } else {
    const middle = x + 60, begin = y + box.height, end = begin + gap;
    group.append(arrow(`M${middle},${begin + 2} V${end - 6}`));
    for (let i = 0; i < slots; i++) group.append(slot(middle + 18 + i * (size + 3), begin + gap / 2 - 16, size, filled, i, slots));
    group.append(text(middle + 18, begin + gap / 2 + 14, `${label}${filled !== null && Number.isFinite(filled) ? `, ${percent(Math.min(1, filled))} full` : ""}`, "dim"));
  }
  return group;
}

const slot = (x, y, size, filled, i, slots) => svg("rect", { class: `slot${filled !== null && filled * slots > i + 0.25 ? " full" : ""}`, x, y, width: size, height: size, rx: 3 });

function back(flow, first, last, box, across) {
  const group = svg("g");
  const words = `versions${flow.lag === null ? "" : `, lag ${flow.lag.toFixed(flow.lag % 1 ? 1 : 0)} of at most ${flow.max_lag}`}`;
  if (!across) return group;
  const y = box.height + 34, from = last[0] + box.width / 2, to = first[0] + box.width / 2;
  group.append(arrow(`M${from},${box.height + 2} V${y} H${to} V${box.height + 8}`, true, true), text((from + to) / 2, y - 8, words, "dim", "middle"));
  return group;
}

function arrow(d, dashed) {
  const numbers = d.match(/-?[\d.]+/g).map(Number), last = d.match(/[HV](-?[\d.]+)$/), upright = d.lastIndexOf("V") > d.lastIndexOf("H");
  const x = upright ? (d.includes("H") ? Number(d.match(/H(-?[\d.]+)/)[1]) : numbers[0]) : Number(last[1]);
  const y = upright ? Number(last[1]) : numbers[1];
  const up = upright && y < (d.includes("H") ? Number(d.match(/V(-?[\d.]+) H/)[1]) : numbers[1]);
  const head = !upright ? `M${x},${y - 4} l7,4 l-7,4z` : up ? `M${x - 4},${y} l4,-7 l4,7z` : `M${x - 4},${y} l4,7 l4,-7z`;
  return svg("g", null, svg("path", { class: `arrow${dashed ? " back" : ""}`, d }), svg("path", { class: "head", d: head }));
}

const text = (x, y, words, kind, anchor) => svg("text", { x, y, class: kind, "text-anchor": anchor }, words);

const told = (shown) => shown.workers.map((kind) => `${kind.count} ${kind.kind}: ${percent(busy(kind.shares))} busy`).join("; ");
