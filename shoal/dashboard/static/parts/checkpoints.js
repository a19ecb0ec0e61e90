// Saved versions and their tags.
import { get, h, replace } from "../dom.js";
import { bytes, count, day, short } from "../format.js";

export function checkpoints(home) {
  const table = h("div", { class: "scroll" }), root = h("div", { class: "card" }, table);
  let timer = 0;
  async function load() {
    let found;
    try { found = await get(`${home}/checkpoints`); } catch { return; }
    replace(table, found.length ? h("table", null, h("thead", null, h("tr", null, ["version", "steps", "saved", "size", "tags"].map((t, i) => h("th", { scope: "col", class: i < 4 ? "num" : "" }, t)))),
      h("tbody", null, found.map((each) => h("tr", null, h("td", { class: "num" }, count(each.version)), h("td", { class: "num" }, short(each.steps)), h("td", { class: "num soft" }, each.saved ? day(each.saved * 1000) : "–"), h("td", { class: "num" }, bytes(each.bytes)), h("td", null, each.tags.map((tag) => h("span", { class: "tag" }, tag)), each.damage ? h("span", { class: "error" }, each.damage) : null)))))
      : h("p", { class: "soft" }, "There is none yet."));
  }
  root.open = () => { load(); clearInterval(timer); timer = setInterval(() => { if (!document.hidden) load(); }, 4000); };
  root.close = () => clearInterval(timer);
  return root;
}
