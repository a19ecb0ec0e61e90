// Every setting, and which of them somebody chose.
import { get, h, replace } from "../dom.js";
import { day } from "../format.js";
import { segment } from "../pages/compare.js";

export function settings(home) {
  const table = h("div", { class: "scroll" }), start = h("div"), search = h("input", { type: "search", placeholder: "Filter settings", "aria-label": "Filter settings", oninput: draw });
  const root = h("div", null, h("div", { class: "card" }, h("div", { class: "bar tools" }, segment([["chosen", "That differ"], ["all", "All"]], "chosen", (key) => { which = key; draw(); }), search), table), h("div", { class: "card" }, h("h2", null, "How it was started"), start));
  let found = null, which = "chosen";

  function draw() {
    if (!found) return;
    const word = search.value.toLowerCase();
    const rows = found.settings.filter((row) => (which === "all" || row.recipe !== null || row.default !== null) && row.key.toLowerCase().includes(word));
    replace(table, rows.length ? h("table", { class: "settings" }, h("thead", null, h("tr", null, ["setting", "value", found.recipe ? `recipe ${found.recipe}` : null, "default"].filter(Boolean).map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", null, rows.map((row) => h("tr", { class: row.recipe !== null || (!found.recipe && row.default !== null) ? "differs" : "" }, h("td", null, row.key), h("td", null, row.value), found.recipe ? h("td", { class: "faint" }, row.recipe ?? "same") : null, h("td", { class: "faint" }, row.default ?? "same")))))
      : h("p", { class: "soft" }, which === "all" ? "None." : "All settings are those of the recipe and its defaults."));
  }

  root.open = async () => {
    if (found) return;
    replace(table, h("p", { class: "soft" }, "Reading…"));
    try { found = await get(`${home}/settings`); } catch (problem) { replace(table, h("p", { class: "error" }, problem.message)); return; }
    draw();
    const facts = found.provenance, list = Array.isArray(facts.command) ? facts.command.join(" ") : null;
    const lines = [["command", list], ["started", day(facts.started)], ["launcher", facts.launcher], ["machine", facts.machine && [facts.machine.host, facts.machine.cpu_model, `${facts.machine.cpus} cores`].join(", ")], ["versions", facts.versions && Object.entries(facts.versions).map(([k, v]) => `${k} ${v}`).join(", ")]];
    replace(start, h("table", { class: "settings" }, h("tbody", null, lines.filter(([, v]) => v).map(([k, v]) => h("tr", null, h("th", { scope: "row" }, k), h("td", null, String(v)))))));
  };
  return root;
}
