// Who took over from whom: a lane for each member over steps, coloured by the member that what it holds began as.
import { h, replace, svg } from "../dom.js";
import { number, short } from "../format.js";
import { link } from "../pages/population.js";

const LANE = 24, TOP = 8, RIGHT = 14, AXIS = 26, LETTER = 7.5;
const MOST = 80; // lanes that are drawn
const LONGEST = 18; // letters of a name
const SHADES = 8;

export const shade = (number) => `s${number % SHADES}`;

export class Lineage {
  constructor() {
    this.data = { members: [], branches: [] };
    this.picture = h("div", { class: "lineage" });
    this.text = h("div", { class: "tree" });
    this.note = h("p", { class: "faint small" });
    this.root = h("div", null, this.picture, this.note, h("details", null, h("summary", null, "As a tree, in words"), this.text));
    new ResizeObserver(() => { if (this.picture.clientWidth !== this.width) this.draw(); }).observe(this.picture);
  }

  take(change) {
    Object.assign(this.data, change);
    this.draw();
    if (change.branches) replace(this.text, tree(this.data.branches));
  }

  light(member) { for (const lane of this.picture.querySelectorAll("[data-member]")) lane.classList.toggle("dim", member !== null && lane.dataset.member !== member); }

  draw() {
    const { members, branches } = this.data;
    this.width = this.picture.clientWidth;
    if (!this.width || !members.length) return;
    const shown = members.slice(0, MOST), lanes = new Map(shown.map((member, i) => [member.member, i]));
    const newest = new Map(branches.map((branch, i) => [branch.member, i])); // the last of each
    const ends = branches.map((branch, i) => (newest.get(branch.member) === i ? Math.max(branch.end, members.find((m) => m.member === branch.member)?.steps ?? 0) : branch.end));
    const longest = Math.max(...shown.map((member) => Math.min(LONGEST, member.member.length)));
    const last = Math.max(1, ...ends), gutter = 16 + LETTER * longest, room = this.width - gutter - RIGHT;
    const x = (steps) => gutter + (room * steps) / last, y = (name) => TOP + LANE * (lanes.get(name) + 0.5);
    const roots = branches.map((_, i) => { let at = i; while (branches[at].parent !== null) at = branches[at].parent; return shade(members.findIndex((m) => m.member === branches[at].member)); });
    const height = TOP + LANE * shown.length + AXIS, parts = [];
    for (const part of room < 400 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) parts.push(svg("line", { class: "grid", x1: x(part * last), x2: x(part * last), y1: TOP, y2: height - AXIS }),
      svg("text", { class: "axis", x: x(part * last), y: height - 8, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, short(part * last)));
    branches.forEach((branch, i) => {
      if (!lanes.has(branch.member)) return;
      const at = y(branch.member), stroke = (node) => { node.style.setProperty("--own", `var(--${roots[i]})`); return node; };
      const lane = stroke(svg("g", { "data-member": branch.member }, svg("title", null, told(branch)), svg("line", { class: "branch", x1: x(branch.begin), x2: Math.max(x(ends[i]), x(branch.begin) + 1), y1: at, y2: at })));
      const parent = branch.parent === null ? null : branches[branch.parent];
      if (parent && lanes.has(parent.member)) lane.append(svg("line", { class: "copy", x1: x(branch.begin), x2: x(branch.begin), y1: y(parent.member), y2: at }), svg("circle", { class: "taken", cx: x(branch.begin), cy: at, r: 4 }));
      if (branch.fate && newest.get(branch.member) === i) lane.append(mark(branch.fate, x(ends[i]), at));
      parts.push(lane);
    });
    for (const member of shown) {
      const label = svg("text", { class: "name", x: 0, y: y(member.member) + 4, "data-member": member.member }, member.member.length > LONGEST ? `${member.member.slice(0, LONGEST - 1)}…` : member.member, svg("title", null, member.member));
      parts.push(member.run ? svg("a", { href: `/run/${member.run}` }, label) : label);
    }
    replace(this.picture, svg("svg", { width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "group", "aria-label": `Lineage: ${branches.filter((branch) => branch.parent !== null).length} times a member took over from another` }, parts));
    this.note.textContent = `${branches.some((branch) => branch.parent !== null) ? "A line that drops from one member to another: it went on from there with what the other had learned. Colours are those of the members that all began with." : "Nobody has taken over from another."}${members.length > MOST ? ` The first ${MOST} members are drawn.` : ""}`;
  }
}

const mark = (fate, x, y) => (/^(pruned|failed|stopped)/.test(fate) ? svg("path", { class: `fate ${fate.split(":")[0]}`, d: `M${x - 4},${y - 4}L${x + 4},${y + 4}M${x - 4},${y + 4}L${x + 4},${y - 4}` }) : svg("circle", { class: "over", cx: x, cy: y, r: 4 }));

const words = (settings) => Object.entries(settings).map(([key, value]) => `${key.split(".").at(-1)} ${value}`).join(", ");

function told(branch) {
  const why = branch.parent !== null ? ` (${branch.reason})` : "", settings = branch.settings.map(([, values]) => words(values)).filter(Boolean).join(" then ");
  return `${branch.member}, ${short(branch.begin)} to ${short(branch.end)} steps${why}${settings ? `: ${settings}` : ""}${branch.score !== null ? `, score ${number(branch.score)}` : ""}${branch.fate ? `; ${branch.fate}` : ""}`;
}

function tree(branches) {
  const below = (parent) => { const found = branches.map((branch, i) => [branch, i]).filter(([branch]) => branch.parent === parent); return found.length ? h("ul", null, found.map(([branch, i]) => h("li", null, told(branch), below(i)))) : null; };
  return below(null) ?? h("p", { class: "soft" }, "There are no members yet.");
}

const WORDS = { copied: "took over from", confirms: "repeats, on a seed of its own,", changed: "was changed", pruned: "was pruned", failed: "failed", crashed: "crashed, and is tried again", stopped: "was stopped", paused: "was paused", unpaused: "goes on" };

export function decisions(list, known) {
  if (!list.length) return h("p", { class: "soft" }, "Nothing was decided yet but who takes part.");
  return h("table", { class: "decisions" }, h("thead", null, h("tr", null, ["at steps", "member", "what", "why", "settings"].map((title, i) => h("th", { scope: "col", class: i ? "" : "num" }, title)))),
    h("tbody", null, list.map((each) => h("tr", null,
      h("td", { class: "num" }, each.steps === null ? "–" : short(each.steps)), h("td", null, link(each.member, known.get(each.member))),
      h("td", null, WORDS[each.kind] ?? each.kind, each.origin ? [" ", link(each.origin, known.get(each.origin))] : null), h("td", { class: "soft" }, each.reason),
      h("td", { class: "mono" }, Object.entries(each.changes).map(([key, [before, after]]) => `${key.split(".").at(-1)} ${before} → ${after}`).join(", "))))));
}
