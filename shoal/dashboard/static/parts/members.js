// The members of a population, a line each: state and slot, how far and how good, the settings that tell them apart.
import { h, replace } from "../dom.js";
import { number, short } from "../format.js";
import { link } from "../pages/population.js";
import { meter } from "../pages/runs.js";

const MOST_KEYS = 8; // settings that have a column of their own
const ORDER = ["running", "waiting", "paused", "ended"];
const value = (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : text);
const place = (state) => (ORDER.includes(state) ? ORDER.indexOf(state) : ORDER.length);

// `light(member)` is called with the member that somebody points at, or null.
export function members(light) {
  const body = h("tbody"), head = h("tr"), rows = new Map();
  const root = h("div", { class: "scroll" }, h("table", { class: "members" }, h("thead", null, head), body));
  let all = [], keys = [], sort = { key: "score", down: true };
  const columns = () => [
    ["member", "member", "", (m) => all.indexOf(m)], ["state", "state", "", (m) => place(m.state)], ["slot", "slot", "num", (m) => m.slot], ["steps", "steps", "num", (m) => m.steps],
    ["score", "score", "num", (m) => m.score?.mean], ["return", "return", "num", (m) => m.return],
    ...keys.map((key) => [`=${key}`, key.split(".").at(-1), "num", (m) => value(m.settings[key] ?? "")]),
    ["from", "took over from", "", (m) => m.from?.steps], ["turns", "turns", "num", (m) => m.turns],
  ];

  function draw() {
    const shown = columns(), by = shown.find(([key]) => key === sort.key)?.[3] ?? (() => 0);
    replace(head, shown.map(([key, title, kind]) => h("th", { scope: "col", class: kind, title: key.startsWith("=") ? key.slice(1) : null, "aria-sort": key === sort.key ? (sort.down ? "descending" : "ascending") : null },
      h("button", { type: "button", onclick: () => { sort = { key, down: sort.key === key ? !sort.down : ["score", "return", "steps"].includes(key) }; draw(); head.querySelector("[aria-sort] button").focus(); } }, title))));
    const missing = (x) => x === null || x === undefined || x === "";
    const ranked = [...all].sort((a, b) => {
      const x = by(a), y = by(b);
      if (missing(x) || missing(y)) return missing(x) - missing(y) || all.indexOf(a) - all.indexOf(b);
      return x === y ? all.indexOf(a) - all.indexOf(b) : (x < y ? -1 : 1) * (sort.down ? -1 : 1);
    });
    ranked.forEach((member, i) => { const row = line(member); if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null); });
    while (body.children.length > ranked.length) body.lastChild.remove();
  }

  function line(member) {
    const key = JSON.stringify([member, keys]);
    const known = rows.get(member.member) ?? { row: h("tr", { "data-member": member.member, onmouseenter: () => light(member.member), onmouseleave: () => light(null), onfocusin: () => light(member.member), onfocusout: () => light(null) }) };
    rows.set(member.member, known);
    if (known.key === key) return known.row;
    known.key = key;
    const { score, from } = member, focused = known.row.contains(document.activeElement);
    replace(known.row,
      h("th", { scope: "row" }, link(member.member, member)),
      h("td", null, h("span", { class: `pill ${member.group} ${member.state}`, title: member.reason || null }, member.state)),
      h("td", { class: "num" }, member.slot === null ? "–" : member.slot),
      h("td", { class: "num" }, short(member.steps), member.goal ? meter(member.steps / member.goal) : null),
      h("td", { class: "num" }, score ? number(score.mean) : "–", score && score.low !== null ? h("span", { class: "interval" }, `${number(score.low)} to ${number(score.high)}`) : null),
      h("td", { class: "num" }, number(member.return)),
      keys.map((name) => h("td", { class: "num mono" }, member.settings[name] ?? "–")),
      h("td", { class: "soft" }, from ? `${from.member} at ${short(from.steps)}` : "–"),
      h("td", { class: "num soft" }, member.turns));
    if (focused) known.row.querySelector("a")?.focus();
    return known.row;
  }

  return { root, take(told) { all = told; keys = [...new Set(all.flatMap((member) => Object.keys(member.settings)))].slice(0, MOST_KEYS); draw(); } };
}
