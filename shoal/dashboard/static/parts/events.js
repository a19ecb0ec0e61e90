// What happened, newest first.
import { h, replace } from "../dom.js";
import { day, clock, number } from "../format.js";

const FAULTS = /restart|died|fault|fail|killed|lost|damaged/i;
const LEAVE = new Set(["time", "kind", "text", "reason", "returns", "lengths", "metrics", "confirmation"]);

export function events() {
  const list = h("ul", { class: "events" }), search = h("input", { type: "search", placeholder: "Filter events", "aria-label": "Filter events", oninput: draw });
  const root = h("div", { class: "card" }, h("div", { class: "bar tools" }, search), list);
  let known = [];
  function draw() {
    const word = search.value.toLowerCase();
    replace(list, known.filter((event) => !word || JSON.stringify(event).toLowerCase().includes(word)).slice(0, 300).map((event) => {
      const words = told(event);
      return h("li", null, h("time", { class: "faint small", title: day(event.time) }, clock(event.time)), h("span", { class: `kind small${FAULTS.test(words) || FAULTS.test(event.kind) ? " fault" : ""}` }, String(event.kind)), h("span", { class: "what" }, words));
    }));
  }
  root.tell = (found) => { known = found; draw(); };
  return root;
}

function told(event) {
  if (event.text || event.reason) return String(event.text ?? event.reason);
  if (event.kind === "evaluation") return `version ${event.version}: ${number(event.mean_reward)} (${number(event.ci_low)} to ${number(event.ci_high)}) over ${event.episodes} episodes`;
  return Object.entries(event).filter(([key, value]) => !LEAVE.has(key) && value !== null && typeof value !== "object").map(([key, value]) => `${key} ${typeof value === "number" ? number(value) : value}`).join(", ");
}
